# SPDX-License-Identifier: Apache-2.0
"""Schemas of assisted volume snapshots: creation and deletion."""

from kilonova.api.schemas.types import JSONDict, body, query
from kilonova.api.validation import Schemas

_TEXT: JSONDict = {"type": "string", "minLength": 1}
_INFO: JSONDict = {
    "type": "object",
    "properties": {
        "snapshot_id": _TEXT,
        "type": {"type": "string", "enum": ["qcow2"]},
        "new_file": _TEXT,
        "id": _TEXT,
    },
    "required": ["snapshot_id", "type", "new_file"],
    "additionalProperties": False,
}
CREATE = Schemas(
    {(2, 1): body("snapshot", {"volume_id": _TEXT, "create_info": _INFO}, required=("volume_id", "create_info"))}
)
_DELETE: JSONDict = {"delete_info": {"type": "string"}}
DELETE = Schemas({(2, 1): query(_DELETE), (2, 75): query(_DELETE, extra=False)})
