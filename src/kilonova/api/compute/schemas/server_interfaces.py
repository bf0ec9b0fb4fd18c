# SPDX-License-Identifier: Apache-2.0
"""Schemas of the ports of servers."""

from kilonova.api.compute.schemas.server_tags import TAG
from kilonova.api.schemas.types import UUID, JSONDict
from kilonova.api.validation import Schemas

_ADDRESS: JSONDict = {"type": "string", "anyOf": [{"format": "ipv4"}, {"format": "ipv6"}]}
_FIXED_IPS: JSONDict = {
    "type": "array",
    "minItems": 1,
    "maxItems": 1,
    "items": {
        "type": "object",
        "properties": {"ip_address": _ADDRESS},
        "required": ["ip_address"],
        "additionalProperties": False,
    },
}


def _attachment(**more: JSONDict) -> JSONDict:
    """Return the schema of the body. An ``interfaceAttachment`` without fields requests the project's only network."""
    asked = {"net_id": UUID, "port_id": UUID, "fixed_ips": _FIXED_IPS, **more}
    attachment = {"type": "object", "properties": asked, "additionalProperties": False}
    return {
        "type": "object",
        "properties": {"interfaceAttachment": attachment},
        "additionalProperties": False,
    }


ATTACH = Schemas({(2, 1): _attachment(), (2, 49): _attachment(tag=TAG)})
