# SPDX-License-Identifier: Apache-2.0
"""Schemas of resource providers, their aggregates and traits."""

from kilonova.api.placement.schemas.types import GENERATION, STRING, UUID, strict
from kilonova.api.placement.schemas.validation import BodySchemas, QuerySchemas
from kilonova.api.schemas.types import JSONDict

_NAME: JSONDict = {"type": "string", "maxLength": 200}
_PARENT: JSONDict = {"anyOf": [UUID, {"type": "null"}]}

CREATE = BodySchemas(
    {
        (1, 0): strict({"name": _NAME, "uuid": UUID}, "name"),
        (1, 14): strict({"name": _NAME, "uuid": UUID, "parent_provider_uuid": _PARENT}, "name"),
    }
)
UPDATE = BodySchemas(
    {
        (1, 0): strict({"name": _NAME}, "name"),
        (1, 14): strict({"name": _NAME, "parent_provider_uuid": _PARENT}, "name"),
    }
)

_LIST_1_0: JSONDict = {"name": STRING, "uuid": UUID}
_LIST_1_3 = {**_LIST_1_0, "member_of": STRING}
_LIST_1_4 = {**_LIST_1_3, "resources": STRING}
_LIST_1_14 = {**_LIST_1_4, "in_tree": UUID}
_LIST_1_18 = {**_LIST_1_14, "required": STRING}
LIST = QuerySchemas(
    {
        (1, 0): strict(_LIST_1_0),
        (1, 3): strict(_LIST_1_3),
        (1, 4): strict(_LIST_1_4),
        (1, 14): strict(_LIST_1_14),
        (1, 18): strict(_LIST_1_18),
    }
)

_AGGREGATES: JSONDict = {"type": "array", "items": UUID, "uniqueItems": True}
SET_AGGREGATES = BodySchemas(
    {
        (1, 1): _AGGREGATES,
        (1, 19): strict(
            {"aggregates": _AGGREGATES, "resource_provider_generation": GENERATION},
            "aggregates",
            "resource_provider_generation",
        ),
    }
)

_TRAITS: JSONDict = {"type": "array", "items": {"type": "string", "minLength": 1, "maxLength": 255}}
SET_TRAITS = BodySchemas(
    {
        (1, 6): strict(
            {"traits": _TRAITS, "resource_provider_generation": GENERATION}, "traits", "resource_provider_generation"
        )
    }
)
