# SPDX-License-Identifier: Apache-2.0
"""Schemas of flavors: create, update, list."""

from kilonova.api.schemas import queries
from kilonova.api.schemas.types import (
    BOOLEAN,
    MAX_FLOAT,
    NAME,
    NON_NEGATIVE_INTEGER,
    POSITIVE_INTEGER,
    JSONDict,
    body,
    query,
    trimmed,
)
from kilonova.api.validation import Schemas

_FLAVOR: JSONDict = {
    "name": NAME,
    "id": {
        "oneOf": [
            {"type": "string", "minLength": 1, "maxLength": 255, "pattern": trimmed("a-zA-Z0-9._-", "a-zA-Z0-9. _-")},
            {"type": "integer"},
            {"type": "null"},
        ]
    },
    "ram": POSITIVE_INTEGER,
    "vcpus": POSITIVE_INTEGER,
    "disk": NON_NEGATIVE_INTEGER,
    "OS-FLV-EXT-DATA:ephemeral": NON_NEGATIVE_INTEGER,
    "swap": NON_NEGATIVE_INTEGER,
    "rxtx_factor": {
        "type": ["number", "string"],
        "pattern": r"^[0-9]+(\.[0-9]+)?$",
        "minimum": 0,
        "exclusiveMinimum": 0,
        "maximum": MAX_FLOAT,
    },
    "os-flavor-access:is_public": BOOLEAN,
}
_DESCRIPTION: JSONDict = {
    "type": ["string", "null"],
    "maxLength": 65535,
    "pattern": r"^[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f]*$",
}
_REQUIRED = ("name", "ram", "vcpus", "disk")

_V2_102: JSONDict = {**_FLAVOR, "description": _DESCRIPTION}
del _V2_102["rxtx_factor"]  # 2.102 removed rxtx_factor from flavors
CREATE = Schemas(
    {
        (2, 1): body("flavor", _FLAVOR, required=_REQUIRED),
        (2, 55): body("flavor", {**_FLAVOR, "description": _DESCRIPTION}, required=_REQUIRED),
        (2, 102): body("flavor", _V2_102, required=_REQUIRED),
    }
)
UPDATE = Schemas({(2, 55): body("flavor", {"description": _DESCRIPTION}, required=("description",))})

_LIST: JSONDict = {
    "limit": {"type": "string", "pattern": "^[0-9]+$"},
    "marker": {"type": "string"},
    "is_public": {"type": "string"},
    "minRam": {"type": "string"},
    "minDisk": {"type": "string"},
    "sort_key": {
        "enum": [
            "created_at", "description", "disabled", "ephemeral_gb", "flavorid", "id", "is_public", "memory_mb", "name",
            "root_gb", "rxtx_factor", "swap", "updated_at", "vcpu_weight", "vcpus",
        ]
    },
    "sort_dir": {"enum": ["asc", "desc"]},
}  # fmt: skip
#: Sort keys from 2.102 on, when flavors no longer have an rxtx_factor.
_LATER_KEYS = [key for key in _LIST["sort_key"]["enum"] if key != "rxtx_factor"]
LIST = Schemas(
    {
        (2, 1): query(_LIST),
        (2, 75): query(_LIST, extra=False),
        (2, 102): query({**_LIST, "sort_key": {"enum": _LATER_KEYS}, "name": {"type": "string"}}, extra=False),
    }
)
SHOW = queries.NONE
