# SPDX-License-Identifier: Apache-2.0
"""Schemas of lock and unlock of a server."""

from kilonova.api.microversion import Version
from kilonova.api.schemas.types import JSONDict, anything
from kilonova.api.validation import Schemas

#: First microversion in which a lock can have a reason. Before, the value of the action may be anything and is ignored.
REASONED = Version(2, 73)


def _lock(given: JSONDict) -> JSONDict:
    return {"type": "object", "properties": {"lock": given}, "required": ["lock"], "additionalProperties": False}


LOCK = Schemas(
    {
        (2, 1): anything("lock"),
        (2, 73): _lock(
            {
                "type": ["object", "null"],
                "properties": {"locked_reason": {"type": "string", "minLength": 1, "maxLength": 255}},
                "additionalProperties": False,
            }
        ),
    }
)
UNLOCK = Schemas({(2, 1): anything("unlock")})
