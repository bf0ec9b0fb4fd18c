# SPDX-License-Identifier: Apache-2.0
"""Schema of the removal of a stray port."""

from kilonova.api.validation import Schemas

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
