# SPDX-License-Identifier: Apache-2.0
"""Allocation ratios of a host."""

from kilonova.records import dataclass


@dataclass(frozen=True, slots=True)
class AllocationRatios:
    """Configured allocation ratios. ``reserved_memory_mib``: memory reserved for the host itself, in MiB."""

    cpu: float = 4.0
    memory: float = 1.0
    disk: float = 1.0
    reserved_memory_mib: int = 512
