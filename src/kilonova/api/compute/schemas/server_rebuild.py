# SPDX-License-Identifier: Apache-2.0
"""Schemas of the rebuild of a server."""

from kilonova.api.compute.schemas.server_metadata import METADATA
from kilonova.api.compute.schemas.servers import CERTIFICATES, DESCRIPTION, FQDN, HOSTNAME
from kilonova.api.schemas.types import BOOLEAN, NAME, UUID, JSONDict, body
from kilonova.api.validation import Schemas

_NAME_OR_NONE: JSONDict = {**NAME, "type": ["string", "null"]}
_V2_1: JSONDict = {
    "name": NAME,
    "imageRef": UUID,
    "adminPass": {"type": "string"},
    "metadata": METADATA,
    "preserve_ephemeral": BOOLEAN,
    "OS-DCF:diskConfig": {"type": "string", "enum": ["AUTO", "MANUAL"]},
    "accessIPv4": {"type": "string", "format": "ipv4"},
    "accessIPv6": {"type": "string", "format": "ipv6"},
}
_PERSONALITY: JSONDict = {"personality": {"type": "array", "items": {"type": "object"}}}
_V2_19: JSONDict = {**_V2_1, "description": DESCRIPTION}
_V2_54: JSONDict = {**_V2_19, "key_name": _NAME_OR_NONE}
_V2_57: JSONDict = {**_V2_54, "user_data": {"type": ["string", "null"], "maxLength": 65535}}
_V2_63: JSONDict = {**_V2_57, "trusted_image_certificates": CERTIFICATES}
_V2_90: JSONDict = {**_V2_63, "hostname": HOSTNAME}
_V2_94: JSONDict = {**_V2_90, "hostname": FQDN}


def _rebuild(properties: JSONDict) -> JSONDict:
    return body("rebuild", properties, required=("imageRef",))


REBUILD = Schemas(
    {
        (2, 1): _rebuild({**_V2_1, **_PERSONALITY}),
        (2, 19): _rebuild({**_V2_19, **_PERSONALITY}),
        (2, 54): _rebuild({**_V2_54, **_PERSONALITY}),
        (2, 57): _rebuild(_V2_57),
        (2, 63): _rebuild(_V2_63),
        (2, 90): _rebuild(_V2_90),
        (2, 94): _rebuild(_V2_94),
    }
)
