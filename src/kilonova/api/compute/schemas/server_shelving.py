# SPDX-License-Identifier: Apache-2.0
"""Schemas of shelve, shelve-offload and unshelve."""

from kilonova.api.schemas.types import HOST, NAME, JSONDict, anything
from kilonova.api.validation import Schemas


def _only(action: str, value: JSONDict) -> JSONDict:
    return {
        "type": "object",
        "properties": {action: value},
        "required": [action],
        "additionalProperties": False,
    }


SHELVE = Schemas({(2, 1): anything("shelve")})
SHELVE_OFFLOAD = Schemas({(2, 1): anything("shelveOffload")})


def _target(properties: JSONDict, *required: str) -> JSONDict:
    where = {"properties": properties, "required": list(required), "additionalProperties": False}
    return _only("unshelve", {"type": ["object", "null"], **where})


UNSHELVE = Schemas(
    {
        (2, 1): anything("unshelve"),
        (2, 77): _target({"availability_zone": NAME}, "availability_zone"),
        (2, 91): _target({"availability_zone": {**NAME, "type": ["string", "null"]}, "host": HOST}),
    }
)
