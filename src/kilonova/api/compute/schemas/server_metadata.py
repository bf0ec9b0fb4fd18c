# SPDX-License-Identifier: Apache-2.0
"""Schemas of server metadata: key=value pairs that users choose freely."""

from kilonova.api.schemas.types import METADATA_KEY, JSONDict
from kilonova.api.validation import Schemas

METADATA: JSONDict = {
    "type": "object",
    "patternProperties": {METADATA_KEY: {"type": "string", "maxLength": 255}},
    "additionalProperties": False,
}


def _all(name: str, pairs: JSONDict) -> Schemas:
    schema = {"type": "object", "properties": {name: pairs}, "required": [name], "additionalProperties": False}
    return Schemas({(2, 1): schema})


MERGE = REPLACE = _all("metadata", METADATA)
SET_ONE = _all("meta", {**METADATA, "minProperties": 1, "maxProperties": 1})
