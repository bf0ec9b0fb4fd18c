# SPDX-License-Identifier: Apache-2.0
"""Schema fragments shared by several Placement resources."""

from kilonova.api.schemas.types import JSONDict

CLASS_PATTERN = "^[A-Z0-9_]+$"
CUSTOM_PATTERN = "^CUSTOM_[A-Z0-9_]+$"
UUID_PATTERN = "^[0-9a-fA-F-]{36}$"

UUID: JSONDict = {"type": "string", "format": "uuid"}
STRING: JSONDict = {"type": "string"}
GENERATION: JSONDict = {"type": "integer"}
OWNER: JSONDict = {"type": "string", "minLength": 1, "maxLength": 255}


def strict(properties: JSONDict, *required: str) -> JSONDict:
    """Return the schema of an object that may have only these ``properties``, and must have the ``required`` ones."""
    schema: JSONDict = {"type": "object", "properties": properties, "additionalProperties": False}
    if required:
        schema["required"] = list(required)
    return schema


def keyed(pattern: str, value: JSONDict, **more: int) -> JSONDict:
    """Return the schema of an object whose keys must match ``pattern`` and whose values must match ``value``."""
    return {"type": "object", "patternProperties": {pattern: value}, "additionalProperties": False, **more}
