# SPDX-License-Identifier: Apache-2.0
"""Schemas of the /os-hosts routes, which exist up to 2.42."""

from kilonova.api.schemas.types import JSONDict, query
from kilonova.api.validation import Schemas

_SWITCH: JSONDict = {"type": "string", "enum": [word for low in ("enable", "disable") for word in
                                                 (low, low.capitalize(), low.upper())]}  # fmt: skip
_UPDATE: JSONDict = {
    "type": "object",
    "properties": {"status": _SWITCH, "maintenance_mode": _SWITCH},
    "minProperties": 1,
    "additionalProperties": False,
}

LIST = Schemas({(2, 1): query({"zone": {"type": "string"}})})
UPDATE = Schemas({(2, 1): _UPDATE})
