# SPDX-License-Identifier: Apache-2.0
"""Schemas of actions on security groups and addresses of a server."""

from collections.abc import Mapping

from kilonova.api.schemas.types import JSONDict, body
from kilonova.api.validation import Schemas

_NAME: JSONDict = {"type": "string", "minLength": 1, "maxLength": 255}
_NETWORK: JSONDict = {"type": ["string", "number"], "minLength": 1, "maxLength": 255}
_ADDRESS: JSONDict = {"type": "string", "anyOf": [{"format": "ipv4"}, {"format": "ipv6"}]}


def _of(action: str, field: str, schema: JSONDict, **more: JSONDict) -> Schemas:
    return Schemas({(2, 1): body(action, {field: schema, **more}, required=(field,))})


ACTIONS: Mapping[str, Schemas] = {
    "addSecurityGroup": _of("addSecurityGroup", "name", _NAME),
    "removeSecurityGroup": _of("removeSecurityGroup", "name", _NAME),
    "addFixedIp": _of("addFixedIp", "networkId", _NETWORK),
    "removeFixedIp": _of("removeFixedIp", "address", _ADDRESS),
    "addFloatingIp": _of("addFloatingIp", "address", _ADDRESS, fixed_address=_ADDRESS),
    "removeFloatingIp": _of("removeFloatingIp", "address", _ADDRESS),
}
