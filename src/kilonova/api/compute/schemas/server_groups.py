# SPDX-License-Identifier: Apache-2.0
"""Schemas of server groups: create, list."""

from kilonova.api.schemas.types import NAME, POSITIVE_INTEGER, JSONDict, body, query
from kilonova.api.validation import Schemas
from kilonova.model.server_group import POLICIES


def _policies(*allowed: str) -> JSONDict:
    return {"type": "array", "items": {"enum": list(allowed)}, "uniqueItems": True, "minItems": 1, "maxItems": 1}


_RULES: JSONDict = {
    "type": "object",
    "properties": {"max_server_per_host": POSITIVE_INTEGER},
    "additionalProperties": False,
}

CREATE = Schemas(
    {
        (2, 1): body(
            "server_group",
            {"name": NAME, "policies": _policies("anti-affinity", "affinity")},
            required=("name", "policies"),
        ),
        (2, 15): body("server_group", {"name": NAME, "policies": _policies(*POLICIES)}, required=("name", "policies")),
        (2, 64): body(
            "server_group",
            {"name": NAME, "policy": {"enum": list(POLICIES)}, "rules": _RULES},
            required=("name", "policy"),
        ),
    }
)
_LIST: JSONDict = {
    "all_projects": {"type": "string"},
    "limit": {"type": "string", "pattern": "^[0-9]+$"},
    "offset": {"type": "string", "pattern": "^[0-9]+$"},
}
LIST = Schemas({(2, 1): query(_LIST), (2, 75): query(_LIST, extra=False)})
