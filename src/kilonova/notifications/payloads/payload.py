# SPDX-License-Identifier: Apache-2.0
"""Base class and serializer of versioned notification payloads."""

from collections.abc import Collection, Mapping
from dataclasses import fields
from datetime import datetime
from enum import StrEnum
from typing import Any, ClassVar

from kilonova.records import dataclass

NAMESPACE = "nova"
#: Types that are serialized unchanged. They are checked first, because most values have one of them.
_PLAIN = frozenset({str, int, float, bool, type(None)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    """Base class of versioned payloads. The name of the subclass is the object name in the message."""

    VERSION: ClassVar[str]


def primitive(value: Any) -> Any:
    """Serialize a payload, or a value that a payload contains, to JSON-compatible values. Times are UTC."""
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
    """Wrap the data of an object in Nova's envelope with name, namespace and version."""
    return {
        "nova_object.name": name,
        "nova_object.namespace": NAMESPACE,
        "nova_object.version": version,
        "nova_object.data": dict(data),
    }
