# SPDX-License-Identifier: Apache-2.0
"""Schemas of a resource provider's inventories."""

from kilonova.api.placement.schemas.types import CLASS_PATTERN, GENERATION, strict
from kilonova.api.placement.schemas.validation import BodySchemas
from kilonova.api.schemas.types import MAX_FLOAT, MAX_INTEGER, JSONDict


def _integer(minimum: int) -> JSONDict:
    return {"type": "integer", "minimum": minimum, "maximum": MAX_INTEGER}


_FIELDS: JSONDict = {
    "resource_provider_generation": GENERATION,
    "total": _integer(1),
    "reserved": _integer(0),
    "min_unit": _integer(1),
    "max_unit": _integer(1),
    "step_size": _integer(1),
    "allocation_ratio": {"type": "number", "maximum": MAX_FLOAT},
}
_CLASS: JSONDict = {"type": "string", "pattern": CLASS_PATTERN}
INVENTORIES: JSONDict = strict(
    {
        "resource_provider_generation": GENERATION,
        # This schema accepts invalid names of resource classes, because the handler reports them as unknown classes.
        "inventories": {"type": "object", "additionalProperties": strict(_FIELDS, "total")},
    },
    "resource_provider_generation",
    "inventories",
)

CREATE = BodySchemas({(1, 0): strict({**_FIELDS, "resource_class": _CLASS}, "total", "resource_class")})
UPDATE = BodySchemas({(1, 0): strict(_FIELDS, "total", "resource_provider_generation")})
REPLACE = BodySchemas({(1, 0): INVENTORIES})
