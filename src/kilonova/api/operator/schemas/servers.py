# SPDX-License-Identifier: Apache-2.0
"""Operations on servers that the operator API has beside Nova's."""

from kilonova.api.compute.schemas.servers import COUNTED_BY
from kilonova.api.schemas.types import JSONDict, body, query
from kilonova.api.validation import Schemas
from kilonova.model.instance import TaskState, VmState

_UUID: JSONDict = {"type": "string", "format": "uuid"}
#: How many of them and how large they may be is checked by what reads them, as when a server is made.
_HINTS: JSONDict = {"type": "object"}
_WORDS: JSONDict = {
    "vm_state": {"enum": [each.value for each in VmState]},
    "task_state": {"enum": ["", "None", "none", *(each.value for each in TaskState)]},
}
COUNT = Schemas({(1, 0): query({**COUNTED_BY, **_WORDS}, extra=False)})
LEAVE_GROUP = Schemas({(1, 0): body("leave_group", {"server_group": _UUID}, required=("server_group",))})
SET_HINTS = Schemas(
    {
        (1, 0): {
            "type": "object",
            "properties": {"hints": _HINTS},
            "required": ["hints"],
            "additionalProperties": False,
        }
    }
)
