# SPDX-License-Identifier: Apache-2.0
"""Schemas of requests for remote consoles."""

from kilonova.api.schemas.types import JSONDict, body
from kilonova.api.validation import Schemas

_PROTOCOLS = ("vnc", "spice", "rdp", "serial")
_TYPES = ("novnc", "xvpvnc", "rdp-html5", "spice-html5", "serial")


def _console(protocols: tuple[str, ...], types: tuple[str, ...]) -> JSONDict:
    properties = {
        "protocol": {"type": "string", "enum": list(protocols)},
        "type": {"type": "string", "enum": list(types)},
    }
    return body("remote_console", properties, required=("protocol", "type"))


CREATE = Schemas(
    {
        (2, 6): _console(_PROTOCOLS, _TYPES),
        (2, 8): _console((*_PROTOCOLS, "mks"), (*_TYPES, "webmks")),
        (2, 99): _console((*_PROTOCOLS, "mks"), (*_TYPES, "webmks", "spice-direct")),
    }
)
#: Console action, for microversions before 2.6 → console types that the action accepts.
_OF_ACTIONS = {
    "os-getVNCConsole": ("novnc", "xvpvnc"),
    "os-getSPICEConsole": ("spice-html5",),
    "os-getRDPConsole": ("rdp-html5",),
    "os-getSerialConsole": ("serial",),
}
ACTIONS = {
    action: Schemas({(2, 1): body(action, {"type": {"type": "string", "enum": list(types)}}, required=("type",))})
    for action, types in _OF_ACTIONS.items()
}
