# SPDX-License-Identifier: Apache-2.0
"""Schema of the body of POST /operator/v1/explain."""

from kilonova.api.schemas.types import MAX_INTEGER, JSONDict
from kilonova.api.validation import Schemas

MOST_SERVERS = 1000
TEXT: JSONDict = {"type": "string", "minLength": 1, "maxLength": 255}
_TEXTS: JSONDict = {"type": "object", "additionalProperties": {"type": "string", "maxLength": 1024}}
_AMOUNT: JSONDict = {"type": "integer", "minimum": 0, "maximum": MAX_INTEGER}
_LEAST_ONE: JSONDict = {**_AMOUNT, "minimum": 1}
FLAVOR: JSONDict = {
    "type": "object",
    "properties": {
        "name": TEXT,
        "vcpus": _LEAST_ONE,
        "ram": _LEAST_ONE,
        "disk": _AMOUNT,
        "ephemeral": _AMOUNT,
        "swap": _AMOUNT,
        "extra_specs": _TEXTS,
    },
    "required": ["vcpus", "ram"],
    "additionalProperties": False,
}
IMAGE: JSONDict = {
    "type": "object",
    "properties": {"id": TEXT, "name": TEXT, "properties": _TEXTS},
    "additionalProperties": False,
}
_HINTS: JSONDict = {
    "type": "object",
    "additionalProperties": {
        "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}],
    },
}
#: Properties of a server request without its flavor.
REQUEST: JSONDict = {
    "image": {"anyOf": [TEXT, IMAGE, {"type": "null"}]},
    "availability_zone": {"anyOf": [TEXT, {"type": "null"}]},
    "hints": _HINTS,
    "group": {"anyOf": [TEXT, {"type": "null"}]},
    "project_id": TEXT,
}
EXPLAIN = Schemas(
    {
        (1, 0): {
            "type": "object",
            "properties": {
                **REQUEST,
                "flavor": {"anyOf": [TEXT, FLAVOR]},
                "count": {"type": "integer", "minimum": 1, "maximum": MOST_SERVERS},
            },
            "required": ["flavor"],
            "additionalProperties": False,
        }
    }
)
