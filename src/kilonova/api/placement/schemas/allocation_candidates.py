# SPDX-License-Identifier: Apache-2.0
"""Schemas of `GET /allocation_candidates`. Before 1.33 suffixes of request groups are numbers, since 1.33 names."""

from kilonova.api.placement.schemas.types import STRING, strict
from kilonova.api.placement.schemas.validation import QuerySchemas
from kilonova.api.schemas.types import JSONDict

_LIMIT: JSONDict = {"type": ["integer", "string"], "pattern": "^[1-9][0-9]*$", "minimum": 1, "minLength": 1}
_POLICY: JSONDict = {"type": "string", "enum": ["none", "isolate"]}
_NUMBER = "[1-9][0-9]*"
_NAME = "[a-zA-Z0-9_-]{1,64}"


def _grouped(wide: JSONDict, suffix: str, *prefixes: str) -> JSONDict:
    return {**strict(wide), "patternProperties": {f"^{prefix}({suffix})?$": STRING for prefix in prefixes}}


_V1_16: JSONDict = {"resources": STRING, "limit": _LIMIT}
_V1_17: JSONDict = {**_V1_16, "required": STRING}
_V1_21: JSONDict = {**_V1_17, "member_of": STRING}
_V1_25: JSONDict = {"limit": _LIMIT, "group_policy": _POLICY}
_V1_35: JSONDict = {**_V1_25, "root_required": STRING}
_V1_36: JSONDict = {**_V1_35, "same_subtree": STRING}
_PREFIXES = ("resources", "required", "member_of", "in_tree")

LIST = QuerySchemas(
    {
        (1, 10): strict({"resources": STRING}, "resources"),
        (1, 16): strict(_V1_16, "resources"),
        (1, 17): strict(_V1_17, "resources"),
        (1, 21): strict(_V1_21, "resources"),
        (1, 25): _grouped(_V1_25, _NUMBER, *_PREFIXES[:3]),
        (1, 31): _grouped(_V1_25, _NUMBER, *_PREFIXES),
        (1, 33): _grouped(_V1_25, _NAME, *_PREFIXES),
        (1, 35): _grouped(_V1_35, _NAME, *_PREFIXES),
        (1, 36): _grouped(_V1_36, _NAME, *_PREFIXES),
    }
)
