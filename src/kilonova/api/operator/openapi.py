# SPDX-License-Identifier: Apache-2.0
"""The OpenAPI document of the operator API, made from its routes, schemas, policy rules and docstrings."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from oslo_policy.policy import DocumentedRuleDefault

from kilonova.api.http import Endpoint, Routes
from kilonova.api.operator.job_kinds import KINDS
from kilonova.api.operator.schemas.responses import FAULT, JSON, RESPONSES, TYPES
from kilonova.api.validation import Schemas

_ROOT = "/operator"
_VERSION = (1, 0)
_JOBS = ("POST", "/v1/jobs")
_STATUS = re.compile(r"\b[45]\d\d\b")
_WORD = re.compile(r"\w+")
_PARAMETER = re.compile(r"\{(\w+)\}")
#: Statuses of faults that every route may have.
_ALWAYS = ("400", "401", "403", "503")
_NAMES = {
    "400": "The request is invalid; the message names the field.",
    "401": "The token is missing or invalid.",
    "403": "The policy does not allow the request.",
    "404": "The resource does not exist.",
    "409": "The request conflicts with the present state.",
    "429": "A limit is reached; retry later.",
    "501": "The host cannot do this.",
    "503": "The service cannot answer now; retry later.",
}
Document = dict[str, Any]


def document(routes: Routes, rules: tuple[DocumentedRuleDefault, ...]) -> Document:
    """Return the OpenAPI 3.1 document of the operator API, as JSON-ready data."""
    paths: dict[str, Document] = {}
    for template in sorted(routes):
        operations = {
            method.lower(): _operation(method, template, endpoint, _rule_of(rules, method, template))
            for method, endpoint in routes[template].items()
        }
        paths[template] = {**operations, **_path_parameters(template)}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Kilonova operator API",
            "version": "1.0",
            "description": "API of Kilonova for administrators, of type kilonova in the catalogue.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": _ROOT}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "apiKey", "in": "header", "name": "X-Auth-Token"}},
            "schemas": {"Fault": FAULT, **TYPES},
        },
    }


def _rule_of(rules: tuple[DocumentedRuleDefault, ...], method: str, template: str) -> DocumentedRuleDefault | None:
    """Return the rule of a route. Rules of kinds of jobs name the route of all jobs, which has a rule of its own."""
    operation = {"method": method, "path": f"{_ROOT}{template}"}
    found = [rule for rule in rules if operation in rule.operations]
    return next((rule for rule in found if rule.name.startswith("kilonova:jobs:")), found[0] if found else None)


def _operation(method: str, template: str, endpoint: Endpoint, rule: DocumentedRuleDefault | None) -> Document:
    told = " ".join((endpoint.handler.__doc__ or "").split())
    text = told.partition(". ")[2].strip()
    operation: Document = {
        "operationId": "_".join([method.lower(), *_WORD.findall(template.replace("-", "_"))]),
        "tags": [template.split("/")[2] if template.count("/") > 1 else "versions"],
        "summary": text if rule is None else rule.description,
    }
    if rule is None:
        operation["security"] = []
    else:
        operation |= {"description": text, "x-policy-rule": rule.name}
    if endpoint.query is not None and (parameters := list(_query_parameters(endpoint.query))):
        operation["parameters"] = parameters
    if endpoint.body is not None:
        schema = _new_job() if (method, template) == _JOBS else _schema(endpoint.body)
        operation["requestBody"] = {"required": True, "content": {JSON: {"schema": schema}}}
    faults = sorted({*_ALWAYS, *_STATUS.findall(told)} if rule is not None else ())
    operation["responses"] = {**_answers(method, template), **{status: _fault(status) for status in faults}}
    return operation


def _schema(schemas: Schemas) -> Mapping[str, Any]:
    return schemas.by_version[_VERSION]


def _query_parameters(query: Schemas) -> Iterator[Document]:
    for name, values in sorted(_schema(query).get("properties", {}).items()):
        yield {"name": name, "in": "query", "required": False, "schema": values.get("items", {})}


def _path_parameters(template: str) -> Document:
    names = _PARAMETER.findall(template)
    if not names:
        return {}
    return {
        "parameters": [{"name": each, "in": "path", "required": True, "schema": {"type": "string"}} for each in names]
    }


def _new_job() -> Document:
    """Return the schema of a new job: each kind with its parameters."""
    kinds = [
        {
            "type": "object",
            "title": kind.title,
            "properties": {"kind": {"const": name}, "parameters": _schema(kind.parameters)},
            "required": ["kind"],
            "additionalProperties": False,
        }
        for name, kind in sorted(KINDS.items())
    ]
    return {"oneOf": kinds}


def _answers(method: str, template: str) -> Document:
    found: Document = {}
    for status, contents in RESPONSES.get((method, template), {"200": {JSON: {"type": "object"}}}).items():
        content = {kind: {"schema": schema} for kind, schema in contents.items()}
        found[status] = {"description": "Success.", **({"content": content} if content else {})}
    return found


def _fault(status: str) -> Document:
    fault = {"$ref": "#/components/schemas/Fault"}
    return {"description": _NAMES.get(status, "An error."), "content": {JSON: {"schema": fault}}}
