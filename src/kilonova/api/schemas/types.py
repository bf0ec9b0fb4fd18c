# SPDX-License-Identifier: Apache-2.0
"""Schema fragments shared by several resources."""

from typing import Any

JSONDict = dict[str, Any]

#: Largest value of an integer column.
MAX_INTEGER = 0x7FFFFFFF
#: Largest single-precision float.
MAX_FLOAT = 3.40282e38
#: An integer or a string of digits. For a string, the schema does not check ``minimum`` and ``maximum``.
NON_NEGATIVE_INTEGER: JSONDict = {
    "type": ["integer", "string"],
    "pattern": "^[0-9]+$",
    "maxLength": len(str(MAX_INTEGER)),
    "minimum": 0,
    "maximum": MAX_INTEGER,
}
POSITIVE_INTEGER: JSONDict = {**NON_NEGATIVE_INTEGER, "minimum": 1}
#: Characters that names must not contain: control characters and line separators. For use in a character class.
UNPRINTABLE = r"\x00-\x1f\x7f-\x9f\u2028\u2029"


def trimmed(outer: str, inner: str) -> str:
    """Return the pattern of text that consists of ``inner`` characters and begins and ends with an ``outer`` character.

    ``inner`` and ``outer`` are contents of regular expression character classes.
    """
    return f"^[{outer}]([{inner}]*[{outer}])?$"


#: 1 to 255 printable characters without leading or trailing white space.
NAME: JSONDict = {
    "type": "string",
    "minLength": 1,
    "maxLength": 255,
    "pattern": trimmed(rf"^\s{UNPRINTABLE}", rf"^{UNPRINTABLE}"),
}
#: Name of a compute host.
HOST: JSONDict = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": r"^[a-zA-Z0-9._-]*$"}
UUID: JSONDict = {"type": "string", "format": "uuid"}
#: Pattern of a metadata key.
METADATA_KEY = r"^[a-zA-Z0-9_:. -]{1,255}$"
BOOLEAN: JSONDict = {
    "enum": [True, "True", "TRUE", "true", "1", "ON", "On", "on", "YES", "Yes", "yes", "y", "t",
             False, "False", "FALSE", "false", "0", "OFF", "Off", "off", "NO", "No", "no", "n", "f"]
}  # fmt: skip
_TRUE = {"true", "1", "on", "yes", "y", "t"}


def body(name: str, properties: JSONDict, *, required: tuple[str, ...] = ()) -> JSONDict:
    """Return the schema of an object whose only key is ``name``, with an object of ``properties`` as its value."""
    inner: JSONDict = {"type": "object", "properties": properties, "additionalProperties": False}
    if required:
        inner["required"] = list(required)
    return {"type": "object", "properties": {name: inner}, "required": [name], "additionalProperties": False}


def nothing(name: str) -> JSONDict:
    """Return the schema of an object whose only key is ``name``, with the value null."""
    return {"type": "object", "properties": {name: {"type": "null"}}, "required": [name], "additionalProperties": False}


def anything(name: str) -> JSONDict:
    """Return the schema of an object whose only key is ``name``. The value may be anything; handlers ignore it."""
    return {"type": "object", "properties": {name: {}}, "required": [name], "additionalProperties": False}


def query(properties: JSONDict, *, extra: bool = True, once: bool = False) -> JSONDict:
    """Return the schema of a query string, decoded as parameter → list of values.

    ``properties``: parameter → schema of each of its values. ``extra``: whether unknown parameters are allowed.
    ``once``: whether a parameter that occurs twice is refused.
    """
    most: JSONDict = {"maxItems": 1} if once else {}
    return {
        "type": "object",
        "properties": {name: {"type": "array", "items": schema, **most} for name, schema in properties.items()},
        "additionalProperties": extra,
    }


def as_bool(value: Any) -> bool:
    """Convert a value that is valid by the schema :data:`BOOLEAN` into a bool."""
    return value if isinstance(value, bool) else str(value).lower() in _TRUE
