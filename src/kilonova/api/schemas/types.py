# SPDX-License-Identifier: Apache-2.0
"""Pieces that several schemas share."""

from typing import Any

JSONDict = dict[str, Any]

#: The largest integer of a database column.
MAX_INTEGER = 0x7FFFFFFF
#: The largest number a single-precision float holds.
MAX_FLOAT = 3.40282e38
#: Digits in a string are accepted; the bounds hold for numbers.
NON_NEGATIVE_INTEGER: JSONDict = {
    "type": ["integer", "string"],
    "pattern": "^[0-9]+$",
    "maxLength": len(str(MAX_INTEGER)),
    "minimum": 0,
    "maximum": MAX_INTEGER,
}
POSITIVE_INTEGER: JSONDict = {**NON_NEGATIVE_INTEGER, "minimum": 1}
#: What no name may hold: control characters and line separators.
UNPRINTABLE = r"\x00-\x1f\x7f-\x9f\u2028\u2029"


def trimmed(outer: str, inner: str) -> str:
    """Return the pattern of one or more characters of the class ``inner``, the first and the last of ``outer``."""
    return f"^[{outer}]([{inner}]*[{outer}])?$"


#: 1 to 255 printable characters, none of white space at either end.
NAME: JSONDict = {
    "type": "string",
    "minLength": 1,
    "maxLength": 255,
    "pattern": trimmed(rf"^\s{UNPRINTABLE}", rf"^{UNPRINTABLE}"),
}
#: A service host as operators name them.
HOST: JSONDict = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": r"^[a-zA-Z0-9._-]*$"}
UUID: JSONDict = {"type": "string", "format": "uuid"}
#: Free key=value pairs.
METADATA_KEY = r"^[a-zA-Z0-9_:. -]{1,255}$"
BOOLEAN: JSONDict = {
    "enum": [True, "True", "TRUE", "true", "1", "ON", "On", "on", "YES", "Yes", "yes", "y", "t",
             False, "False", "FALSE", "false", "0", "OFF", "Off", "off", "NO", "No", "no", "n", "f"]
}  # fmt: skip
_TRUE = {"true", "1", "on", "yes", "y", "t"}


def body(name: str, properties: JSONDict, *, required: tuple[str, ...] = ()) -> JSONDict:
    """Return the schema of ``{name: {...}}`` with nothing beside it."""
    inner: JSONDict = {"type": "object", "properties": properties, "additionalProperties": False}
    if required:
        inner["required"] = list(required)
    return {"type": "object", "properties": {name: inner}, "required": [name], "additionalProperties": False}


def nothing(name: str) -> JSONDict:
    """Return the schema of ``{name: null}`` with nothing beside it."""
    return {"type": "object", "properties": {name: {"type": "null"}}, "required": [name], "additionalProperties": False}


def anything(name: str) -> JSONDict:
    """Return the schema of ``{name: …}`` with nothing beside it: whatever is given with the name is passed over."""
    return {"type": "object", "properties": {name: {}}, "required": [name], "additionalProperties": False}


def query(properties: JSONDict, *, extra: bool = True, once: bool = False) -> JSONDict:
    """Return the schema of a query: every parameter is a list of strings, each of which must fit its entry.

    ``extra``: whether unknown parameters are tolerated; ``once``: whether no parameter may be repeated.
    """
    most: JSONDict = {"maxItems": 1} if once else {}
    return {
        "type": "object",
        "properties": {name: {"type": "array", "items": schema, **most} for name, schema in properties.items()},
        "additionalProperties": extra,
    }


def as_bool(value: Any) -> bool:
    """Read a value that fits :data:`BOOLEAN`."""
    return value if isinstance(value, bool) else str(value).lower() in _TRUE
