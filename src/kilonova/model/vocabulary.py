# SPDX-License-Identifier: Apache-2.0
"""Resource classes and traits of Placement, standard and custom."""

from datetime import datetime

from os_resource_classes import STANDARDS

from kilonova.records import dataclass

CUSTOM_PREFIX = "CUSTOM_"
_STANDARD_CLASSES = frozenset(STANDARDS)


@dataclass(frozen=True, slots=True)
class Word:
    """A resource class or a trait."""

    name: str
    created_at: datetime | None = None
    updated_at: datetime | None = None


def is_custom(name: str) -> bool:
    """Tell whether a resource class or trait is custom, and so not defined by os-traits or os-resource-classes."""
    return name.startswith(CUSTOM_PREFIX)


def is_resource_class(name: str) -> bool:
    """Tell whether a name can be a resource class: it is a standard class or starts with ``CUSTOM_``."""
    return is_custom(name) or name in _STANDARD_CLASSES
