# SPDX-License-Identifier: Apache-2.0
"""JSON Schemas as data: a fast check on every request, and the words for the error when it fails.

Patterns are matched by an engine whose time grows with the length of the text and no faster, also when an error is
explained: no pattern may look ahead or back, and nothing that a client sends makes one slow.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any, ClassVar

import jsonschema_rs

from kilonova.api.microversion import Version
from kilonova.errors import InvalidRequest

Schema = Mapping[str, Any]
_MESSAGE = 1000
#: Up to so many values and characters, an error is explained in the words that clients know; it takes milliseconds.
_EXPLAINED_VALUES = 2_000
_EXPLAINED_CHARACTERS = 200_000
_LINEAR = jsonschema_rs.RegexOptions()


class Compiled:
    """One schema, ready to check and to explain."""

    formats: ClassVar[Mapping[str, Callable[[str], bool]]] = {}

    def __init__(self, schema: Schema) -> None:
        self.schema = dict(schema)
        self._fast = jsonschema_rs.validator_for(
            self.schema, validate_formats=True, formats=dict(self.formats), pattern_options=_LINEAR
        )
        self.is_valid = self._fast.is_valid

    def explain(self, instance: Any) -> InvalidRequest:
        """Return the error for an instance that does not fit, naming the field."""
        try:
            if _is_explainable(instance):
                return self._explain(instance)
        except RecursionError:
            return invalid_field("body", "It is nested too deeply.")
        return self._first_error(instance)

    def _explain(self, instance: Any) -> InvalidRequest:
        import jsonschema  # noqa: PLC0415 - slow to import, and most processes start without a bad request

        validator = wording_validator()(self.schema, format_checker=jsonschema.FormatChecker())
        errors = sorted(validator.iter_errors(instance), key=lambda error: [str(part) for part in error.absolute_path])
        if not errors:  # the two differ in corners, such as numbers that only one of them takes for integers
            return self._first_error(instance)
        error = jsonschema.exceptions.best_match(errors) or errors[0]
        return _refusal(error.absolute_path, error.instance, error.message)

    def _first_error(self, instance: Any) -> InvalidRequest:
        """Return an error in the words of the fast check, which is all that a very large instance is given."""
        found = self.first_found(instance)
        return _refusal(found.instance_path, found.instance, found.message)

    def first_found(self, instance: Any) -> jsonschema_rs.ValidationError:
        """Return the first error of the fast check, which looks for no further one."""
        try:
            self._fast.validate(instance)
        except jsonschema_rs.ValidationError as found:
            return found
        raise AssertionError("the instance fits its schema")


def _is_explainable(instance: Any) -> bool:
    """Tell whether an instance is small and shallow enough to be walked in Python."""
    waiting, characters = [instance], 0
    for item in waiting:  # grows as it goes
        if isinstance(item, str):
            characters += len(item)
        elif isinstance(item, dict):
            waiting += item.values()
            characters += sum(map(len, item))
        elif isinstance(item, list):
            waiting += item
        if len(waiting) > _EXPLAINED_VALUES or characters > _EXPLAINED_CHARACTERS:
            return False
    return True


@cache
def _matcher(pattern: str) -> Callable[[str], bool]:
    return jsonschema_rs.validator_for({"pattern": pattern}, pattern_options=_LINEAR).is_valid


def _unnamed(instance: Mapping[str, Any], schema: Schema) -> list[str]:
    """Return the keys that neither ``properties`` nor ``patternProperties`` of a schema know."""
    matchers = [_matcher(pattern) for pattern in schema.get("patternProperties", ())]
    known = schema.get("properties", {})
    return [key for key in instance if key not in known and not any(matches(key) for matches in matchers)]


@cache
def wording_validator() -> Any:
    """Return the validator whose words clients know, with the patterns left to the engine of the fast check."""
    import jsonschema  # noqa: PLC0415 - slow to import, and most processes start without a bad request

    error = jsonschema.ValidationError

    def pattern(_validator: Any, wanted: str, instance: Any, _schema: Schema) -> Iterator[Any]:
        if isinstance(instance, str) and not _matcher(wanted)(instance):
            yield error(f"{instance!r} does not match {wanted!r}")

    def pattern_properties(validator: Any, by_pattern: Schema, instance: Any, _schema: Schema) -> Iterator[Any]:
        for wanted, schema in by_pattern.items() if isinstance(instance, dict) else ():
            for key in filter(_matcher(wanted), instance):
                yield from validator.descend(instance[key], schema, path=key, schema_path=wanted)

    def additional_properties(validator: Any, allowed: Any, instance: Any, schema: Schema) -> Iterator[Any]:
        unnamed = _unnamed(instance, schema) if isinstance(instance, dict) and allowed is not True else []
        if isinstance(allowed, dict):
            for key in unnamed:
                yield from validator.descend(instance[key], allowed, path=key)
        elif unnamed:
            keys, one = ", ".join(map(repr, sorted(unnamed))), len(unnamed) == 1
            if "patternProperties" in schema:
                patterns = ", ".join(map(repr, sorted(schema["patternProperties"])))
                yield error(f"{keys} {'does' if one else 'do'} not match any of the regexes: {patterns}")
            else:
                was = "was" if one else "were"
                yield error(f"Additional properties are not allowed ({keys} {was} unexpected)")

    return jsonschema.validators.extend(  # type: ignore[no-untyped-call]
        jsonschema.Draft202012Validator,
        {
            "pattern": pattern,
            "patternProperties": pattern_properties,
            "additionalProperties": additional_properties,
        },
    )


def _refusal(path: Iterable[Any], value: Any, message: str) -> InvalidRequest:
    field, message = ".".join(str(part) for part in path), shortened(message)
    if not field:
        return InvalidRequest(message)
    return invalid_field(field, f"Value: {shortened(str(value))}. {message}")


def invalid_field(field: str, message: str) -> InvalidRequest:
    """Return the error for a field of a body."""
    return InvalidRequest(f"Invalid input for field/attribute {field}. {message}", field=field)


def invalid_parameter(name: str, value: object, message: str) -> InvalidRequest:
    """Return the error for a parameter of a query."""
    return InvalidRequest(
        f"Invalid input for query parameters {name}. Value: {shortened(str(value))}. {message}", field=name
    )


def shortened(text: str) -> str:
    """Return both ends of a text that is long: what was wrong with a long value is said after it."""
    half = _MESSAGE // 2
    return text if len(text) <= _MESSAGE else f"{text[:half]} ... {text[-half:]}"


class Schemas:
    """The schema of one body or query by microversion: ``Schemas({(2, 1): {...}, (2, 55): {...}})``.

    A version before the first entry has no schema: anything is accepted there.
    """

    compiled_by: ClassVar[type[Compiled]] = Compiled

    def __init__(self, by_version: Mapping[tuple[int, int], Schema]) -> None:
        self.by_version = by_version
        self._steps = sorted((Version(*version), schema) for version, schema in by_version.items())
        self._compiled: dict[int, Compiled] = {}

    def check(self, instance: Any, version: Version) -> None:
        """Raise InvalidRequest naming the field unless ``instance`` fits the schema in force at ``version``."""
        index = -1
        for start, _ in self._steps:
            if version < start:
                break
            index += 1
        if index < 0:
            return
        compiled = self._compiled.get(index)
        if compiled is None:
            compiled = self._compiled[index] = self.compiled_by(self._steps[index][1])
        if not compiled.is_valid(instance):
            raise compiled.explain(instance)
