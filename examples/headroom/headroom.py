# SPDX-License-Identifier: Apache-2.0
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class HeadroomFilter:
    """Keep hosts that have so much memory left when the server is there."""

    free_mib: int = 1024
    reason: str = "would be left with too little memory"

    def passes(self, hosts, spec):
        left = hosts.free("MEMORY_MB") - spec.flavor.memory_mib
        return left >= self.free_mib


@dataclass(frozen=True)
class FullestWeigher:
    """Prefer the host that has the least memory left: fill one up before the next is begun."""

    multiplier: float = 1.0
    ignore_below_mib: int = 0

    def weigh(self, hosts, spec, rows):
        free = hosts.free("MEMORY_MB", rows)
        return -np.maximum(free, self.ignore_below_mib)
