# SPDX-License-Identifier: Apache-2.0
"""Schemas of the operator API's operations on servers."""

from kilonova.api.compute.schemas.servers import COUNTED_BY
from kilonova.api.schemas.types import JSONDict, body, query
from kilonova.api.validation import Schemas
from kilonova.model.instance import TaskState, VmState

_UUID: JSONDict = {"type": "string", "format": "uuid"}
#: Scheduler hints. Their number and size are checked by ``read_hints``, as for new servers.
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
