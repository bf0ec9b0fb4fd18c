# SPDX-License-Identifier: Apache-2.0
"""Schemas of external events on servers, sent by other services."""

from kilonova.api.schemas.types import UUID, JSONDict
from kilonova.api.validation import Schemas

_NAMES = ("network-changed", "network-vif-plugged", "network-vif-unplugged", "network-vif-deleted")
#: Microversion → event name that it added.
_LATER = {
    (2, 51): "volume-extended",
    (2, 76): "power-update",
    (2, 82): "accelerator-request-bound",
    (2, 93): "volume-reimaged",
}


def _events(*names: str) -> JSONDict:
    event = {
        "type": "object",
        "properties": {
            "name": {"type": "string", "enum": list(names)},
            "server_uuid": UUID,
            "status": {"type": "string", "enum": ["failed", "completed", "in-progress"]},
            "tag": {"type": "string", "maxLength": 255},
        },
        "required": ["server_uuid", "name"],
        "additionalProperties": False,
    }
    return {
        "type": "object",
        "properties": {"events": {"type": "array", "minItems": 1, "items": event}},
        "required": ["events"],
        "additionalProperties": False,
    }


CREATE = Schemas(
    {
        (2, 1): _events(*_NAMES),
        **{
            since: _events(*_NAMES, *(name for version, name in _LATER.items() if version <= since)) for since in _LATER
        },
    }
)
