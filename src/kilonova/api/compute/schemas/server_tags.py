# SPDX-License-Identifier: Apache-2.0
"""Schemas of server tags."""

from kilonova.api.schemas.types import JSONDict
from kilonova.api.validation import Schemas

MOST_TAGS = 50
TAG: JSONDict = {"type": "string", "minLength": 1, "maxLength": 60, "pattern": "^[^,/]*$"}
TAGS: JSONDict = {"type": "array", "maxItems": MOST_TAGS, "items": TAG}
REPLACE = Schemas(
    {
        (2, 26): {
            "type": "object",
            "properties": {"tags": TAGS},
            "required": ["tags"],
            "additionalProperties": False,
        }
    }
)
#: Schema for a tag in the path. It is wrapped in an object, so that errors name the field ``tag``.
IN_PATH = Schemas({(2, 26): {"type": "object", "properties": {"tag": TAG}}})
NO_BODY = Schemas({(2, 26): {"type": "null"}})
