# SPDX-License-Identifier: Apache-2.0
"""Schemas of security groups and their rules, up to 2.35. Unknown fields are ignored."""

from kilonova.api.schemas.types import UUID, JSONDict
from kilonova.api.validation import Schemas

_TEXT: JSONDict = {"type": "string", "maxLength": 255}


def _body(name: str, properties: JSONDict, required: list[str]) -> Schemas:
    inner: JSONDict = {"type": "object", "properties": properties, "required": required}
    return Schemas({(2, 1): {"type": "object", "properties": {name: inner}, "required": [name]}})


#: Body of requests that create or change a group.
GROUP = _body("security_group", {"name": _TEXT, "description": _TEXT}, ["name", "description"])
#: Body of a request that creates a rule. The handler checks the other fields.
RULE = _body(
    "security_group_rule",
    {"parent_group_id": UUID, "group_id": {"type": ["string", "null"], "format": "uuid"}},
    ["parent_group_id"],
)
