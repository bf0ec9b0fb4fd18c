# SPDX-License-Identifier: Apache-2.0
"""Schemas of images and backups of servers."""

from kilonova.api.schemas.types import METADATA_KEY, NAME, JSONDict, body
from kilonova.api.validation import Schemas

_METADATA: JSONDict = {
    "type": "object",
    "patternProperties": {METADATA_KEY: {"type": "string", "maxLength": 255}},
    "additionalProperties": False,
}
_TYPE: JSONDict = {"type": "string", "maxLength": 255}
#: Number of backups to keep. It has no maximum: if fewer backups exist, all are kept.
_ROTATION: JSONDict = {"type": ["integer", "string"], "pattern": "^[0-9]+$", "minimum": 0}

CREATE_IMAGE = Schemas({(2, 1): body("createImage", {"name": NAME, "metadata": _METADATA}, required=("name",))})
CREATE_BACKUP = Schemas(
    {
        (2, 1): body(
            "createBackup",
            {"name": NAME, "backup_type": _TYPE, "rotation": _ROTATION, "metadata": _METADATA},
            required=("name", "backup_type", "rotation"),
        )
    }
)
