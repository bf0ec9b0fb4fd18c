# SPDX-License-Identifier: Apache-2.0
"""Schemas of host aggregates and their three actions."""

from kilonova.api.schemas.types import HOST, METADATA_KEY, NAME, UNPRINTABLE, JSONDict, body, trimmed
from kilonova.api.validation import Schemas

# Names of zones contain no colon, because it would make `zone:host:node` ambiguous.
_ZONE: JSONDict = {**NAME, "type": ["string", "null"], "pattern": trimmed(rf"^\s:{UNPRINTABLE}", f"^:{UNPRINTABLE}")}
_AGGREGATE: JSONDict = {"name": NAME, "availability_zone": _ZONE}

CREATE = Schemas({(2, 1): body("aggregate", _AGGREGATE, required=("name",))})
_update = body("aggregate", _AGGREGATE)
_update["properties"]["aggregate"]["anyOf"] = [{"required": ["name"]}, {"required": ["availability_zone"]}]
UPDATE = Schemas({(2, 1): _update})
ADD_HOST = Schemas({(2, 1): body("add_host", {"host": HOST}, required=("host",))})
REMOVE_HOST = Schemas({(2, 1): body("remove_host", {"host": HOST}, required=("host",))})
_METADATA: JSONDict = {
    "type": "object",
    "patternProperties": {METADATA_KEY: {"type": ["string", "null"], "maxLength": 255}},
    "additionalProperties": False,
}
SET_METADATA = Schemas({(2, 1): body("set_metadata", {"metadata": _METADATA}, required=("metadata",))})
CACHE_IMAGES = Schemas(
    {
        (2, 81): {
            "type": "object",
            "required": ["cache"],
            "additionalProperties": False,
            "properties": {
                "cache": {
                    "type": "array",
                    "minItems": 1,
                    "maxItems": 1000,
                    "uniqueItems": True,
                    "items": {
                        "type": "object",
                        "required": ["id"],
                        "additionalProperties": False,
                        "properties": {"id": {"type": "string", "format": "uuid"}},
                    },
                }
            },
        }
    }
)
