# SPDX-License-Identifier: Apache-2.0
"""Schemas of resize with its confirmation and revert, cold and live migration."""

from kilonova.api.schemas.types import BOOLEAN, HOST, JSONDict, anything, body
from kilonova.api.validation import Schemas

_ANY_HOST: JSONDict = {**HOST, "type": ["string", "null"]}
_BLOCK_OR_AUTO: JSONDict = {"enum": [*BOOLEAN["enum"], "auto"]}
_LIVE: JSONDict = {"host": _ANY_HOST, "block_migration": _BLOCK_OR_AUTO}


RESIZE = Schemas(
    {
        (2, 1): body(
            "resize",
            {
                "flavorRef": {"type": ["string", "integer"], "minLength": 1},
                "OS-DCF:diskConfig": {"type": "string", "enum": ["AUTO", "MANUAL"]},
            },
            required=("flavorRef",),
        )
    }
)
CONFIRM_RESIZE = Schemas({(2, 1): anything("confirmResize")})
REVERT_RESIZE = Schemas({(2, 1): anything("revertResize")})
MIGRATE = Schemas(
    {
        # up to 2.55 the value of the action may be anything and is ignored
        (2, 1): anything("migrate"),
        (2, 56): {
            "type": "object",
            "required": ["migrate"],
            "additionalProperties": False,
            "properties": {
                "migrate": {
                    "type": ["object", "null"],
                    "properties": {"host": _ANY_HOST},
                    "additionalProperties": False,
                }
            },
        },
    }
)
LIVE_MIGRATE = Schemas(
    {
        (2, 1): body(
            "os-migrateLive",
            {"host": _ANY_HOST, "block_migration": BOOLEAN, "disk_over_commit": BOOLEAN},
            required=("host", "block_migration", "disk_over_commit"),
        ),
        (2, 25): body("os-migrateLive", _LIVE, required=("host", "block_migration")),
        (2, 30): body("os-migrateLive", {**_LIVE, "force": BOOLEAN}, required=("host", "block_migration")),
        (2, 68): body("os-migrateLive", _LIVE, required=("host", "block_migration")),
    }
)
