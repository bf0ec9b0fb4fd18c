# SPDX-License-Identifier: Apache-2.0
"""Holds every answer of the operator API in a test to the API's OpenAPI document."""

import re
from functools import cache
from typing import Any

import jsonschema_rs
import orjson

from kilonova.api.operator.family import RULES, OperatorFamily
from kilonova.api.operator.openapi import document


@cache
def described() -> dict[str, Any]:
    """Return the OpenAPI document."""
    found: dict[str, Any] = orjson.loads(orjson.dumps(document(OperatorFamily.routes, RULES)))
    return found


@cache
def _patterns() -> list[tuple[re.Pattern[str], str]]:
    """Return the paths of the document as patterns, those without parameters first."""
    ordered = sorted(described()["paths"], key=lambda path: path.count("{"))
    return [(re.compile(re.sub(r"\\?\{\w+\\?\}", "[^/]+", re.escape(path))), path) for path in ordered]


@cache
def _validator(method: str, path: str, status: str, kind: str) -> jsonschema_rs.Validator | None:
    operation = described()["paths"][path][method.lower()]
    response = operation["responses"].get(status)
    assert response is not None, f"{method} {path} answered {status}, which the OpenAPI document does not name"
    if "content" not in response:
        return None
    assert kind in response["content"], f"{method} {path}: {kind} is not in the OpenAPI document"
    schema = {**response["content"][kind]["schema"], "components": described()["components"]}
    return jsonschema_rs.validator_for(schema)


def check_answer(method: str, path: str, status: int, content_type: str, raw: bytes) -> None:
    """Assert that an answer is described. ``path``: below ``/operator``. Unknown paths and methods have only faults."""
    bare = path.partition("?")[0]
    template = next((known for pattern, known in _patterns() if pattern.fullmatch(bare)), None)
    if template is None or method.lower() not in described()["paths"][template] or status >= 400:
        return
    validator = _validator(method, template, str(status), content_type.partition(";")[0])
    if validator is not None and content_type.startswith("application/json"):
        validator.validate(orjson.loads(raw))
