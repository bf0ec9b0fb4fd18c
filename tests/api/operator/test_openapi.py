# SPDX-License-Identifier: Apache-2.0
"""The OpenAPI document of the operator API. ``support.api_client`` holds every answer of the other tests to it."""

import re
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest

from kilonova.api.operator.family import RULES, OperatorFamily
from kilonova.api.operator.job_kinds import KINDS
from kilonova.api.operator.schemas.responses import RESPONSES
from support.control import Control
from support.operator_document import check_answer, described

OPERATIONS = [(method, path) for path, methods in OperatorFamily.routes.items() for method in methods]


def operation(method: str, path: str) -> dict[str, Any]:
    found: dict[str, Any] = described()["paths"][path][method.lower()]
    return found


def test_the_document_has_all_routes_and_no_other() -> None:
    known = {
        (method.upper(), path)
        for path, operations in described()["paths"].items()
        for method in operations
        if method != "parameters"
    }
    assert known == set(OPERATIONS)
    assert RESPONSES.keys() <= known
    assert described()["openapi"] == "3.1.0"


@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_an_operation_is_described(method: str, path: str) -> None:
    found = operation(method, path)
    assert found["summary"]
    named = re.findall(r"\{(\w+)\}", path)
    assert [each["name"] for each in described()["paths"][path].get("parameters", [])] == named
    endpoint = OperatorFamily.routes[path][method]
    assert ("requestBody" in found) is (endpoint.body is not None)
    assert [status for status in found["responses"] if status < "400"]
    rules = {rule.name for rule in RULES if {"method": method, "path": f"/operator{path}"} in rule.operations}
    assert found["x-policy-rule"] in rules if rules else found["security"] == []


def test_names_of_operations_are_unique() -> None:
    names = [operation(*each)["operationId"] for each in OPERATIONS]
    assert len(set(names)) == len(names)


def schemas(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        if "schema" in value and isinstance(value["schema"], dict):
            yield value["schema"]
        for each in value.values():
            yield from schemas(each)
    elif isinstance(value, list):
        for each in value:
            yield from schemas(each)


def test_all_schemas_are_valid_and_find_what_they_refer_to() -> None:
    found = [*schemas(described()["paths"]), *described()["components"]["schemas"].values()]
    assert len(found) > 50
    for schema in found:
        jsonschema_rs.validator_for({**schema, "components": described()["components"]})


def test_a_new_job_is_described_by_its_kind() -> None:
    kinds = operation("POST", "/v1/jobs")["requestBody"]["content"]["application/json"]["schema"]["oneOf"]
    assert {each["properties"]["kind"]["const"] for each in kinds} == set(KINDS)
    validator = jsonschema_rs.validator_for({"oneOf": kinds})
    assert validator.is_valid({"kind": "capacity", "parameters": {"flavors": ["1"]}})
    assert not validator.is_valid({"kind": "capacity", "parameters": {"flavor": ["1"]}})


def test_every_user_gets_the_document(control: Control) -> None:
    answer = control.operator.as_user("alice:wonder").get("/openapi.json")
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    assert answer.body == described()
    assert control.operator.as_user("").get("/openapi.json").status == 401


def test_an_answer_that_is_not_described_is_noticed() -> None:
    with pytest.raises(jsonschema_rs.ValidationError):
        check_answer("GET", "/v1/servers/count", 200, "application/json", b'{"count": "7"}')
    with pytest.raises(AssertionError, match="201"):
        check_answer("GET", "/v1/servers/count", 201, "application/json", b'{"count": 7}')
    check_answer("GET", "/v1/servers/count?a=b", 200, "application/json", b'{"count": 7}')
    check_answer("GET", "/v1/nowhere", 404, "application/json", b"{}")
