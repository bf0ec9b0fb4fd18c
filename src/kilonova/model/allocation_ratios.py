# SPDX-License-Identifier: Apache-2.0
"""How far a host offers more than it has."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AllocationRatios:
    """Ratios that the operator configured, and memory kept for the host itself. Units: MiB."""

    cpu: float = 4.0
    memory: float = 1.0
    disk: float = 1.0
    reserved_memory_mib: int = 512
