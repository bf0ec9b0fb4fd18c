# SPDX-License-Identifier: Apache-2.0
"""Whether enough of the classic resources is left when a host may promise more than it has.

Units: as Nova's host attributes, MiB for memory and disk. Placement judges the same by itself, with the ratio of the
inventory; these are for rules that ask with a ratio of their own.
"""

import math

import numpy as np

from kilonova.model.flavor import Flavor
from kilonova.scheduler.aggregate_rules import float_factors
from kilonova.scheduler.host_attributes import COLUMNS, MIB_PER_GIB
from kilonova.scheduler.host_table import ALL_ROWS, BoolArray, FloatArray, HostTable


def own_ratio(hosts: HostTable, attribute: str) -> FloatArray:
    """Return the allocation ratio of each host's inventory. Shapes: → (H,)."""
    return COLUMNS[attribute](hosts, ALL_ROWS).astype(np.float64)


def aggregate_ratio(hosts: HostTable, attribute: str) -> FloatArray:
    """Return the smallest ratio that a host's aggregates give under the attribute's name, else its own.

    One value that is no finite number makes the host fall back to its own. Shapes: → (H,).
    """
    own = own_ratio(hosts, attribute)
    given = float_factors(hosts, attribute, math.nan)
    return own if isinstance(given, float) else np.where(np.isnan(given), own, given)


def cores_suffice(hosts: HostTable, ratio: FloatArray, flavor: Flavor) -> BoolArray:
    """Return where ``total x ratio - used`` covers them; a host that reports no cores passes. Shapes: (H,) → (H,)."""
    total = COLUMNS["vcpus_total"](hosts, ALL_ROWS)
    suffice: BoolArray = (total * ratio - COLUMNS["vcpus_used"](hosts, ALL_ROWS) >= flavor.vcpus) | (total == 0)
    return suffice


def memory_suffices(hosts: HostTable, ratio: FloatArray, flavor: Flavor) -> BoolArray:
    """Return where ``total x ratio - used`` covers it, what is reserved counted as used. Shapes: (H,) → (H,)."""
    total = COLUMNS["total_usable_ram_mb"](hosts, ALL_ROWS)
    left = total * ratio - (total - COLUMNS["free_ram_mb"](hosts, ALL_ROWS))
    suffices: BoolArray = left >= flavor.memory_mib
    return suffices


def disk_suffices(hosts: HostTable, ratio: FloatArray, flavor: Flavor) -> BoolArray:
    """Return where ``total x ratio - used`` covers it, what is reserved counted as used. Shapes: (H,) → (H,)."""
    total = COLUMNS["total_usable_disk_gb"](hosts, ALL_ROWS) * MIB_PER_GIB
    suffices: BoolArray = total * ratio - COLUMNS["disk_mb_used"](hosts, ALL_ROWS) >= disk_needed(flavor)
    return suffices


def disk_needed(flavor: Flavor) -> int:
    """Return root, ephemeral and swap disk together. Units: MiB."""
    return MIB_PER_GIB * (flavor.root_gib + flavor.ephemeral_gib) + flavor.swap_mib
