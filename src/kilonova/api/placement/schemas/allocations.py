# SPDX-License-Identifier: Apache-2.0
"""Schemas of the allocations of one consumer and of several consumers, and of the reshaper's body."""

from kilonova.api.placement.schemas.inventories import INVENTORIES
from kilonova.api.placement.schemas.types import CLASS_PATTERN, GENERATION, OWNER, UUID, UUID_PATTERN, keyed, strict
from kilonova.api.placement.schemas.validation import BodySchemas
from kilonova.api.schemas.types import JSONDict

_AMOUNTS = keyed(CLASS_PATTERN, {"type": "integer", "minimum": 1}, minProperties=1)
_OWNERS: JSONDict = {"project_id": OWNER, "user_id": OWNER}
_ITEM = strict(
    {"resource_provider": strict({"uuid": UUID}, "uuid"), "resources": _AMOUNTS}, "resource_provider", "resources"
)
_ITEMS: JSONDict = {"allocations": {"type": "array", "minItems": 1, "items": _ITEM}}
_OF_PROVIDER = strict({"generation": GENERATION, "resources": _AMOUNTS}, "resources")
_MAPPINGS: JSONDict = {
    "type": "object",
    "minProperties": 1,
    "patternProperties": {"[a-zA-Z0-9_-]{1,64}": {"type": "array", "minItems": 1, "items": UUID}},
}
_TYPE: JSONDict = {"type": "string", "pattern": CLASS_PATTERN, "minLength": 1, "maxLength": 255}
_REQUIRED = ("allocations", "project_id", "user_id")

_SOME: JSONDict = {"allocations": keyed(UUID_PATTERN, _OF_PROVIDER, minProperties=1), **_OWNERS}
_ANY: JSONDict = {"allocations": keyed(UUID_PATTERN, _OF_PROVIDER, minProperties=0), **_OWNERS}
_V1_28: JSONDict = {**_ANY, "consumer_generation": {"type": ["integer", "null"]}}
_V1_34: JSONDict = {**_V1_28, "mappings": _MAPPINGS}
_V1_38: JSONDict = {**_V1_34, "consumer_type": _TYPE}
_CONSUMERS: dict[tuple[int, int], JSONDict] = {
    (1, 13): strict(_ANY, *_REQUIRED),
    (1, 28): strict(_V1_28, *_REQUIRED, "consumer_generation"),
    (1, 34): strict(_V1_34, *_REQUIRED, "consumer_generation"),
    (1, 38): strict(_V1_38, *_REQUIRED, "consumer_generation", "consumer_type"),
}

PUT = BodySchemas(
    {
        (1, 0): strict(_ITEMS, "allocations"),
        (1, 8): strict({**_ITEMS, **_OWNERS}, *_REQUIRED),
        (1, 12): strict(_SOME, *_REQUIRED),
        **{version: schema for version, schema in _CONSUMERS.items() if version >= (1, 28)},
    }
)
POST = BodySchemas({version: keyed(UUID_PATTERN, schema, minProperties=1) for version, schema in _CONSUMERS.items()})
RESHAPE = BodySchemas(
    {
        (1, 30) if version == (1, 28) else version: strict(
            {
                "inventories": keyed(UUID_PATTERN, INVENTORIES, minProperties=1),
                "allocations": keyed(UUID_PATTERN, schema, minProperties=0),
            },
            "inventories",
            "allocations",
        )
        for version, schema in _CONSUMERS.items()
        if version >= (1, 28)
    }
)
