# SPDX-License-Identifier: Apache-2.0
"""Print the schemas of Nova's compute API as JSON, with their verdicts on many sample bodies and queries.

Runs in Nova's environment, without Kilonova. For each method and action: its microversions; its schemas of bodies,
queries and responses with their microversions; and samples with the verdict of every schema.
"""

import inspect
import json
import re
import sys
from collections.abc import Iterator
from typing import Any

from nova import conf, exception
from nova.api.openstack.compute import routes
from nova.api.validation import validators

from schema_peer.samples import samples_of

#: Schema id → schema and validator. The schema is kept alive so that its id is not reused.
_VALIDATORS: dict[int, tuple[Any, Any]] = {}
_KINDS = {"body": "request_body_schemas", "query": "request_query_schemas", "answer": "response_body_schemas"}


def _span(low: Any, high: Any) -> list[int]:
    return [1 if low.is_null() else max(low.ver_minor, 1), 999 if high.is_null() else high.ver_minor]


def _schemas(function: Any, name: str) -> list[tuple[list[int], Any]]:
    held = getattr(function, name, None)
    found = [] if held is None else [(_span(low, high), schema) for schema, low, high in held._schemas]
    return [(span, schema) for span, schema in found if span[1] >= 1]  # schemas that apply only to v2.0 are left out


def _fits(schema: Any, instance: Any, *, is_body: bool) -> bool:
    key = id(schema)
    if key not in _VALIDATORS:
        _VALIDATORS[key] = schema, validators._SchemaValidator(schema, is_body=is_body)
    try:
        _VALIDATORS[key][1].validate(instance)
    except (exception.ValidationError, UnicodeDecodeError):  # invalid base64 text, for which Nova returns 500
        return False
    return True


def _is_query(sample: Any) -> bool:
    """Return whether a sample is a possible query: name → list of texts."""
    return isinstance(sample, dict) and all(
        isinstance(values, list) and values and all(isinstance(each, str) for each in values)
        for values in sample.values()
    )


def _told(function: Any) -> dict[str, Any]:
    minor = [
        None if text is None else int(text.partition(".")[2])
        for text in (getattr(function, "min_version", None), getattr(function, "max_version", None))
    ]
    told: dict[str, Any] = {"since": minor[0], "until": minor[1], "removed": getattr(function, "removed", False)}
    for kind, name in _KINDS.items():
        schemas = _schemas(function, name)
        told[kind] = [{"from": span[0], "to": span[1], "schema": schema} for span, schema in schemas]
        if kind != "answer" and schemas:
            is_body = kind == "body"
            told[f"{kind}_samples"] = [
                [sample, [_fits(schema, sample, is_body=is_body) for _, schema in schemas]]
                for sample in samples_of([schema for _, schema in schemas], _fits)
                if is_body or _is_query(sample)
            ]
    return told


def _actions(classes: list[Any]) -> dict[str, Any]:
    return {
        function.wsgi_action: function
        for cls in classes
        for _, function in inspect.getmembers(cls, inspect.isfunction)
        if hasattr(function, "wsgi_action")
    }


def _methods() -> Iterator[tuple[str, Any]]:
    for template, by_method in routes.ROUTE_LIST:
        # text is a redirect; os-volumes_boot is an alias of the servers routes
        if isinstance(by_method, str) or template.startswith("/os-volumes_boot"):
            continue
        path = re.sub(r"{\w+}", "{}", template)
        for method, (made, name) in by_method.items():
            main, others = made.args
            if name == "action":
                for action, function in _actions([main, *others]).items():
                    yield f"{method} {path} {action}", function
            else:
                yield f"{method} {path}", getattr(main, name)


conf.CONF([], project="nova", default_config_files=[])
json.dump({key: _told(function) for key, function in _methods()}, sys.stdout)
