# SPDX-License-Identifier: Apache-2.0
"""Schemas of services: bodies of updates, which changed in 2.53, and queries of the list."""

from kilonova.api.schemas.types import BOOLEAN, HOST, NAME, JSONDict, query
from kilonova.api.validation import Schemas

_NAMED: JSONDict = {
    "host": HOST,
    "binary": {"type": "string", "minLength": 1, "maxLength": 255},
    "disabled_reason": NAME,
}


def _object(properties: JSONDict, *required: str) -> JSONDict:
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


UPDATE = Schemas(
    {
        (2, 1): _object(_NAMED, "host", "binary"),
        (2, 11): _object({**_NAMED, "forced_down": BOOLEAN}, "host", "binary"),
        (2, 53): _object(
            {"status": {"enum": ["enabled", "disabled"]}, "disabled_reason": NAME, "forced_down": BOOLEAN}
        ),
    }
)
#: Query parameters of the list. ``with_versions`` is Kilonova's own: it adds fields that Nova does not have.
_LIST: JSONDict = {
    "host": {"type": "string"},
    "binary": {"type": "string"},
    "with_versions": {"enum": ["true", "false"]},
}
LIST = Schemas({(2, 1): query(_LIST), (2, 75): query(_LIST, extra=False)})
