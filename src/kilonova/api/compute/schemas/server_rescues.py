# SPDX-License-Identifier: Apache-2.0
"""Schemas of rescue, unrescue, password change and crash dump."""

from kilonova.api.schemas.types import UUID, anything, body, nothing
from kilonova.api.validation import Schemas

_PASSWORD = {"type": "string"}
RESCUE = Schemas(
    {
        (2, 1): {
            "type": "object",
            "properties": {
                "rescue": {
                    "type": ["object", "null"],
                    "properties": {"adminPass": _PASSWORD, "rescue_image_ref": UUID},
                    "additionalProperties": False,
                }
            },
            "required": ["rescue"],
            "additionalProperties": False,
        }
    }
)
UNRESCUE = Schemas({(2, 1): anything("unrescue")})
CHANGE_PASSWORD = Schemas({(2, 1): body("changePassword", {"adminPass": _PASSWORD}, required=("adminPass",))})
CRASH_DUMP = Schemas({(2, 1): nothing("trigger_crash_dump")})
