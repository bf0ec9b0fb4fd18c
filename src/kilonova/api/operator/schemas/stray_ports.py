# SPDX-License-Identifier: Apache-2.0
"""Schemas of the list and the removal of stray ports."""

from kilonova.api.schemas.queries import PAGE
from kilonova.api.schemas.types import query
from kilonova.api.validation import Schemas

LIST = Schemas({(1, 0): query(PAGE, extra=False)})
REMOVE = Schemas(
    {
        (1, 0): {
            "type": "object",
            "properties": {
                "remove": {
                    "type": "object",
                    "properties": {"port": {"type": "string", "format": "uuid"}},
                    "required": ["port"],
                    "additionalProperties": False,
                }
            },
            "required": ["remove"],
            "additionalProperties": False,
        }
    }
)
