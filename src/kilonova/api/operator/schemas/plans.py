# SPDX-License-Identifier: Apache-2.0
"""Schemas of the bodies of requests for plans."""

from kilonova.api.schemas.types import JSONDict
from kilonova.api.validation import Schemas
from kilonova.model.move_plan import How, Objective

MOST_HOSTS = 1_000
_NAME: JSONDict = {"type": "string", "minLength": 1, "maxLength": 255}
_COUNT: JSONDict = {"type": ["integer", "null"], "minimum": 1, "maximum": 1_000_000}
_GIB: JSONDict = {"type": ["number", "null"], "exclusiveMinimum": 0, "maximum": 1e12}
_HOW: JSONDict = {"type": "string", "enum": [each.value for each in How]}
LIMITS: JSONDict = {
    "type": "object",
    "properties": {"per_host": _COUNT, "per_wave": _COUNT, "gib_per_host": _GIB},
    "additionalProperties": False,
}
DRAIN = Schemas(
    {
        (1, 0): {
            "type": "object",
            "properties": {
                "hosts": {"type": "array", "items": _NAME, "minItems": 1, "maxItems": MOST_HOSTS},
                "aggregate": _NAME,
                "how": _HOW,
                "limits": LIMITS,
                "locked": {"type": "boolean"},
            },
            "additionalProperties": False,
        }
    }
)
REBALANCE = Schemas(
    {
        (1, 0): {
            "type": "object",
            "properties": {
                "objective": {"type": "string", "enum": [each.value for each in Objective]},
                "resource": {**_NAME, "pattern": "^[A-Z0-9_]+$"},
                "aggregate": _NAME,
                "moves": _COUNT,
                "gib": _GIB,
                "how": _HOW,
                "limits": LIMITS,
                "locked": {"type": "boolean"},
            },
            "required": ["objective"],
            "additionalProperties": False,
        }
    }
)
