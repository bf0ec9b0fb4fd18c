# SPDX-License-Identifier: Apache-2.0
"""Schemas of changes of policy, and of the parameters of jobs of the kind ``diff``."""

from kilonova.api.schemas.types import JSONDict
from kilonova.api.validation import Schemas

MOST_DECISIONS = 1_000_000
MOST_LISTED = 10_000
_NAME: JSONDict = {"type": "string", "minLength": 1, "maxLength": 255}
_NAMES: JSONDict = {"type": "array", "items": _NAME, "maxItems": 100, "uniqueItems": True}
_HOSTS: JSONDict = {"type": "array", "items": _NAME, "maxItems": 1000, "uniqueItems": True}
_TEXT: JSONDict = {"type": "string", "maxLength": 65_535}


def _by_name(value: JSONDict, most: int = 100) -> JSONDict:
    """Return the schema of an object with any names. ``value``: schema of each value."""
    return {"type": "object", "maxProperties": most, "propertyNames": _NAME, "additionalProperties": value}


_VALUES = _by_name({"type": ["string", "null"], "maxLength": 255})
AGGREGATE: JSONDict = {
    "type": "object",
    "properties": {"metadata": _VALUES, "add_hosts": _HOSTS, "remove_hosts": _HOSTS},
    "additionalProperties": False,
}
HOST: JSONDict = {
    "type": "object",
    "properties": {"disabled": {"type": "boolean"}},
    "required": ["disabled"],
    "additionalProperties": False,
}
_FLAVOR: JSONDict = {"type": "object", "properties": {"extra_specs": _VALUES}, "additionalProperties": False}
CHANGE: JSONDict = {
    "options": _by_name(_TEXT),
    "enable": _NAMES,
    "disable": _NAMES,
    "weights": _by_name({"type": "number", "minimum": -1e12, "maximum": 1e12}),
    "aggregates": _by_name(AGGREGATE),
    "hosts": _by_name(HOST, 1000),
    "flavors": _by_name(_FLAVOR),
}
LAST: JSONDict = {"type": "integer", "minimum": 1, "maximum": MOST_DECISIONS}
DAYS: JSONDict = {"type": "number", "minimum": 0, "maximum": 3650}
LISTED: JSONDict = {"type": "integer", "minimum": 0, "maximum": MOST_LISTED}
DIFF = Schemas(
    {
        (1, 0): {
            "type": "object",
            "properties": {**CHANGE, "last": LAST, "listed": LISTED},
            "additionalProperties": False,
        }
    }
)
PREVIEW = Schemas(
    {
        (1, 0): {
            "type": "object",
            "properties": {**CHANGE, "days": DAYS, "listed": LISTED},
            "additionalProperties": False,
        }
    }
)
