# SPDX-License-Identifier: Apache-2.0
"""What every payload of a versioned notification is: fields, under a name and a version that consumers know."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from enum import StrEnum
from typing import Any, ClassVar

NAMESPACE = "nova"
#: Most of what is in payloads: sent as it is.
_PLAIN = frozenset({str, int, float, bool, type(None)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    """The name of the class is the name of the object in the message."""

    VERSION: ClassVar[str]


def primitive(value: Any) -> Any:
    """Return a payload, or what is in one, as it is sent. Times are UTC."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, Payload):
        return envelope(
            type(value).__name__,
            value.VERSION,
            {each.name: primitive(getattr(value, each.name)) for each in fields(value)},
        )
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%dT%H:%M:%SZ}"
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, Mapping):
        return {key: primitive(each) for key, each in value.items()}
    if isinstance(value, Collection) and not isinstance(value, str):
        return [primitive(each) for each in value]
    return value


def envelope(name: str, version: str, data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the data of an object with what tells consumers how to read it."""
    return {
        "nova_object.name": name,
        "nova_object.namespace": NAMESPACE,
        "nova_object.version": version,
        "nova_object.data": dict(data),
    }
