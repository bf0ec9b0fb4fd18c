# SPDX-License-Identifier: Apache-2.0
"""Images and backups of servers."""

from kilonova.api.schemas.types import MAX_INTEGER, METADATA_KEY, NAME, NON_NEGATIVE_INTEGER, JSONDict, body
from kilonova.api.validation import Schemas

_METADATA: JSONDict = {
    "type": "object",
    "patternProperties": {METADATA_KEY: {"type": "string", "maxLength": 255}},
    "additionalProperties": False,
}
_TYPE: JSONDict = {"type": "string", "maxLength": 255}
_ROTATION: JSONDict = {**NON_NEGATIVE_INTEGER, "maximum": MAX_INTEGER}

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
