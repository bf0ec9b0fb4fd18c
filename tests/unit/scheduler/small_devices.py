# SPDX-License-Identifier: Apache-2.0
"""NUMA cells and PCI pools of small hosts for tests of rules."""

from kilonova.model.numa import HostCell
from kilonova.model.pci import PciPool

PINNED = {"hw:cpu_policy": "dedicated"}


def cell(number: int, *, threads: int = 2, **changed: object) -> HostCell:
    """Return a cell of eight dedicated and two shared CPUs and 8 GiB."""
    first = number * 10
    cores = [frozenset(range(at, at + threads)) for at in range(first, first + 8, threads)]
    facts = {
        "cpuset": frozenset({first + 8, first + 9}),
        "pcpuset": frozenset(range(first, first + 8)),
        "memory_mib": 8192,
        "siblings": tuple(cores) if threads > 1 else (),
        "socket": number // 2,
    }
    return HostCell(number, **{**facts, **changed})


def gpus(number: int, count: int, near: int | None, **changed: object) -> PciPool:
    return PciPool(number, "10de", "1db4", count, near, **changed)
