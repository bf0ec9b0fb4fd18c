# SPDX-License-Identifier: Apache-2.0
"""Resource providers, inventories and allocations, as Placement defines them."""

import math
from collections.abc import Mapping
from dataclasses import field
from datetime import datetime

from kilonova.records import dataclass

_BOUNDLESS = 2**62


def floored_capacity(total: int, reserved: int, allocation_ratio: float) -> int:
    """Return the capacity of an inventory: ``(total - reserved) * allocation_ratio``, rounded down.

    The result is at most 2**62, because a large ratio would otherwise overflow 64-bit sums.
    """
    exact = (total - reserved) * allocation_ratio
    return _BOUNDLESS if exact >= _BOUNDLESS else math.floor(exact)


@dataclass(frozen=True, slots=True)
class Inventory:
    """Inventory of one resource class of one provider. The unit depends on the class: MEMORY_MB MiB, DISK_GB GiB."""

    resource_class: str
    total: int
    reserved: int = 0
    min_unit: int = 1
    max_unit: int = 2147483647
    step_size: int = 1
    allocation_ratio: float = 1.0

    @property
    def capacity(self) -> int:
        return floored_capacity(self.total, self.reserved, self.allocation_ratio)


@dataclass(frozen=True, slots=True)
class Provider:
    """A resource provider. For a root provider, ``root_uuid`` is its own uuid and ``parent_uuid`` is None."""

    id: int
    uuid: str
    name: str
    generation: int
    root_uuid: str
    parent_uuid: str | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Allocation:
    """A consumer's allocation from one provider. ``resources``: resource class → amount, which is above zero."""

    provider_uuid: str
    resources: Mapping[str, int] = field(default_factory=dict)
