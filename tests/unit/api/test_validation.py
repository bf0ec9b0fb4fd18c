# SPDX-License-Identifier: Apache-2.0
from typing import Any

import jsonschema
import pytest

from kilonova.api.compute.family import RESOURCES
from kilonova.api.http import Endpoint
from kilonova.api.microversion import Version
from kilonova.api.schemas.types import POSITIVE_INTEGER, as_bool, body, query
from kilonova.api.validation import Compiled, Schemas
from kilonova.errors import InvalidRequest
from support.worst_texts import cpu_limit

SIZES = Schemas(
    {
        (2, 5): body("box", {"size": {**POSITIVE_INTEGER, "maximum": 10}}, required=("size",)),
        (2, 2): body("box", {"size": {**POSITIVE_INTEGER, "maximum": 5}}),
    }
)


def refusal(instance: Any, minor: int) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as refused:
        SIZES.check(instance, Version(2, minor))
    return refused.value


def test_the_schema_in_force_is_the_newest_not_newer() -> None:
    SIZES.check("anything", Version(2, 1))
    SIZES.check({"box": {}}, Version(2, 4))
    SIZES.check({"box": {"size": "5"}}, Version(2, 4))
    SIZES.check({"box": {"size": 10}}, Version(2, 99))
    assert "size" in refusal({"box": {}}, 5).message


def test_the_message_names_the_field_and_the_value() -> None:
    error = refusal({"box": {"size": 6}}, 2)
    assert error.fields == {"field": "box.size"}
    assert error.message == "Invalid input for field/attribute box.size. Value: 6. 6 is greater than the maximum of 5"


def test_a_missing_or_additional_part_is_named() -> None:
    assert "'box' is a required property" in refusal({}, 2).message
    assert "colour" in refusal({"box": {"colour": 1}}, 2).message
    assert "None is not of type 'object'" in refusal(None, 2).message


def test_what_only_the_fast_check_refuses_is_named_too() -> None:
    word = Schemas({(2, 1): {"properties": {"word": {"type": "string", "pattern": "^[a-z]+$"}}}})
    with pytest.raises(InvalidRequest) as refused:
        word.check({"word": "end\n"}, Version(2, 1))
    assert refused.value.fields == {"field": "word"}


def test_a_message_does_not_grow_with_the_value() -> None:
    error = refusal({"box": {"size": "x" * 1_000_000}}, 2)
    assert error.fields == {"field": "box.size"}
    assert len(error.message) < 3000


def test_what_is_too_deep_to_describe_is_refused() -> None:
    deep: list[Any] = []
    for _ in range(1000):
        deep = [deep]
    assert "nested too deeply" in refusal(deep, 2).message


def test_each_value_of_a_parameter_is_checked() -> None:
    sizes = Schemas({(2, 1): query({"size": {"type": "string", "pattern": "^[0-9]+$"}}, extra=False)})
    sizes.check({"size": ["1", "2"]}, Version(2, 1))
    for bad in ({"size": ["1", "x"]}, {"colour": ["red"]}):
        with pytest.raises(InvalidRequest):
            sizes.check(bad, Version(2, 1))


@pytest.mark.parametrize(("value", "meant"), [(True, True), ("yes", True), ("ON", True), (False, False), ("0", False)])
def test_words_for_yes_and_no(value: object, meant: bool) -> None:
    assert as_bool(value) is meant


def endpoints() -> list[tuple[str, Endpoint]]:
    return [
        (f"{method} {path}", endpoint)
        for resource in RESOURCES
        for path, methods in resource.ROUTES.items()
        for method, endpoint in methods.items()
    ]


@pytest.mark.parametrize(("name", "endpoint"), endpoints(), ids=[name for name, _ in endpoints()])
def test_every_schema_is_a_schema(name: str, endpoint: Endpoint) -> None:
    for schemas in (endpoint.body, endpoint.query):
        for _, schema in schemas._steps if schemas is not None else ():
            jsonschema.Draft202012Validator.check_schema(dict(schema))


@pytest.mark.parametrize("pattern", ["^(?!a)b", "^b(?<!a)$", r"(a)\1"])
def test_a_pattern_for_a_backtracking_engine_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="regex"):
        Compiled({"pattern": pattern})


def deep(levels: int) -> Any:
    value: Any = "x"
    for _ in range(levels):
        value = [value]
    return value


LARGE = {
    "many values": ["x"] * 500_000,
    "many kinds of values": [[number] if number % 2 else {"a": number} for number in range(100_000)],
    "many keys": {f"key {number}!": "x" for number in range(200_000)},
    "a long text": "x" * 8_000_000,
    "a deep one": deep(900),
}
STRICT = {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}}}


@pytest.mark.parametrize("what", LARGE)
def test_explaining_an_error_in_a_large_body_is_bounded(what: str) -> None:
    schemas = Schemas({(2, 1): {**STRICT, "additionalProperties": False}})
    for large in ({"a": LARGE[what]}, {"b": LARGE[what]}, LARGE[what]):
        with cpu_limit(3, what), pytest.raises(InvalidRequest) as refused:
            schemas.check(large, Version(2, 1))
        assert len(refused.value.message) < 4000
