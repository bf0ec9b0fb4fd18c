# SPDX-License-Identifier: Apache-2.0
"""Names that Placement keeps: resource classes and traits, standard ones and those of the operator."""

from dataclasses import dataclass
from datetime import datetime

from os_resource_classes import STANDARDS

CUSTOM_PREFIX = "CUSTOM_"
_STANDARD_CLASSES = frozenset(STANDARDS)


@dataclass(frozen=True, slots=True)
class Word:
    """A resource class or a trait."""

    name: str
    created_at: datetime | None = None
    updated_at: datetime | None = None


def is_custom(name: str) -> bool:
    """Whether an operator made this name up; all others come from os-traits and os-resource-classes."""
    return name.startswith(CUSTOM_PREFIX)


def is_resource_class(name: str) -> bool:
    """Whether this may be a resource class: a standard one, or one of an operator."""
    return is_custom(name) or name in _STANDARD_CLASSES
