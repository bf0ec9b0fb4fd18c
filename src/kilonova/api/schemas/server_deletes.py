# SPDX-License-Identifier: Apache-2.0
"""Restore a soft-deleted server, and delete one for good."""

from kilonova.api.schemas.types import JSONDict
from kilonova.api.validation import Schemas


def _anything(action: str) -> JSONDict:
    """Whatever is given with the action is passed over."""
    return {"type": "object", "properties": {action: {}}, "required": [action], "additionalProperties": False}


RESTORE = Schemas({(2, 1): _anything("restore")})
FORCE_DELETE = Schemas({(2, 1): _anything("forceDelete")})
