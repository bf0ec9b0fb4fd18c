# SPDX-License-Identifier: Apache-2.0
"""Checks of free vCPUs, memory and disk under an allocation ratio, for the core, RAM and disk filters.

Placement makes the same checks with the allocation ratio of the inventory. These functions are for filters that use an
allocation ratio of aggregates, and for filters that an operator enables in addition to Placement.
Units: MiB for memory and disk, as in Nova's host attributes.
"""

import math

import numpy as np

from kilonova.model.flavor import Flavor
from kilonova.scheduler.aggregate_rules import float_factors
from kilonova.scheduler.host_attributes import COLUMNS, MIB_PER_GIB
from kilonova.scheduler.host_table import ALL_ROWS, BoolArray, FloatArray, HostTable


def own_ratio(hosts: HostTable, attribute: str) -> FloatArray:
    """Return the allocation ratio of each host's inventory. ``attribute``: e.g. ``cpu_allocation_ratio``.

    Shapes: → (H,).
    """
    return COLUMNS[attribute](hosts, ALL_ROWS).astype(np.float64)


def aggregate_ratio(hosts: HostTable, attribute: str) -> FloatArray:
    """Return, for each host, the smallest allocation ratio in the metadata of its aggregates.

    ``attribute``: the metadata key. A host gets the ratio of its inventory if none of its aggregates has the key, or if
    a value is not a finite number. Shapes: → (H,).
    """
    own = own_ratio(hosts, attribute)
    given = float_factors(hosts, attribute, math.nan)
    return own if isinstance(given, float) else np.where(np.isnan(given), own, given)


def cores_suffice(hosts: HostTable, ratio: FloatArray, flavor: Flavor) -> BoolArray:
    """Return the mask of the hosts with enough free vCPUs: ``total x ratio - used``.

    ``used`` includes reserved vCPUs. A host that reports no vCPUs passes. Shapes: (H,) → (H,).
    """
    total = COLUMNS["vcpus_total"](hosts, ALL_ROWS)
    suffice: BoolArray = (total * ratio - COLUMNS["vcpus_used"](hosts, ALL_ROWS) >= flavor.vcpus) | (total == 0)
    return suffice


def memory_suffices(hosts: HostTable, ratio: FloatArray, flavor: Flavor) -> BoolArray:
    """Return the mask of the hosts with enough free memory: ``total x ratio - used``.

    ``used`` includes reserved memory. Shapes: (H,) → (H,).
    """
    total = COLUMNS["total_usable_ram_mb"](hosts, ALL_ROWS)
    left = total * ratio - (total - COLUMNS["free_ram_mb"](hosts, ALL_ROWS))
    suffices: BoolArray = left >= flavor.memory_mib
    return suffices


def disk_suffices(hosts: HostTable, ratio: FloatArray, flavor: Flavor) -> BoolArray:
    """Return the mask of the hosts with enough free disk: ``total x ratio - used``.

    ``used`` includes reserved disk. Shapes: (H,) → (H,).
    """
    total = COLUMNS["total_usable_disk_gb"](hosts, ALL_ROWS) * MIB_PER_GIB
    suffices: BoolArray = total * ratio - COLUMNS["disk_mb_used"](hosts, ALL_ROWS) >= disk_needed(flavor)
    return suffices


def disk_needed(flavor: Flavor) -> int:
    """Return the sum of a flavor's root, ephemeral and swap disk. Units: MiB."""
    return MIB_PER_GIB * (flavor.root_gib + flavor.ephemeral_gib) + flavor.swap_mib
