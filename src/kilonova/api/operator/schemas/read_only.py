# SPDX-License-Identifier: Apache-2.0
"""Schema of a change of the read-only switch."""

from kilonova.api.validation import Schemas

UPDATE = Schemas(
    {
        (1, 0): {
            "type": "object",
            "properties": {
                "read_only": {
                    "type": "object",
                    "properties": {
                        "enabled": {"type": "boolean"},
                        "reason": {"type": ["string", "null"], "maxLength": 255},
                    },
                    "required": ["enabled"],
                    "additionalProperties": False,
                }
            },
            "required": ["read_only"],
            "additionalProperties": False,
        }
    }
)
