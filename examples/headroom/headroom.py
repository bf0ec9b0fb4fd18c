# SPDX-License-Identifier: Apache-2.0
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class HeadroomFilter:
    """Pass hosts that have at least ``free_mib`` MiB of memory left with the server on them."""

    free_mib: int = 1024
    reason: str = "would be left with too little memory"

    def passes(self, hosts, spec):
        left = hosts.free("MEMORY_MB") - spec.flavor.memory_mib
        return left >= self.free_mib


@dataclass(frozen=True)
class FullestWeigher:
    """Prefer the host with the least free memory, so hosts are filled one by one."""

    multiplier: float = 1.0
    ignore_below_mib: int = 0

    def weigh(self, hosts, spec, rows):
        free = hosts.free("MEMORY_MB", rows)
        return -np.maximum(free, self.ignore_below_mib)
