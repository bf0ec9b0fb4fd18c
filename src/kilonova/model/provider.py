# SPDX-License-Identifier: Apache-2.0
"""Resource providers, inventories and allocations, as Placement defines them."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

_BOUNDLESS = 2**62


def floored_capacity(total: int, reserved: int, allocation_ratio: float) -> int:
    """Return how much of a class may be allocated: ``(total - reserved) * allocation_ratio``, rounded down.

    Ratios may be as high as a float goes; what is more than anybody can ask for is cut to what 64 bits can add up.
    """
    exact = (total - reserved) * allocation_ratio
    return _BOUNDLESS if exact >= _BOUNDLESS else math.floor(exact)


@dataclass(frozen=True, slots=True)
class Inventory:
    """One resource class of one provider. Units are the class's own (MEMORY_MB: MiB, DISK_GB: GiB, VCPU: cores)."""

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
    """A resource provider. A root is its own root; ``parent_uuid`` is None there."""

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
    """What a consumer uses of one provider: resource class → amount, all above zero."""

    provider_uuid: str
    resources: Mapping[str, int] = field(default_factory=dict)
