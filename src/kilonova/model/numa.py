# SPDX-License-Identifier: Apache-2.0
"""NUMA: the cells of a host with what is used of them, and the cells that a server asks for.

A host cell has shared CPUs (``cpuset``), over which the vCPUs of many guests float, and dedicated ones (``pcpuset``),
each of which is pinned to one vCPU of one guest.
"""

from dataclasses import dataclass
from enum import StrEnum


class CpuPolicy(StrEnum):
    SHARED = "shared"
    DEDICATED = "dedicated"
    MIXED = "mixed"


class ThreadPolicy(StrEnum):
    """How vCPUs are laid on hyperthreads: together if possible, each on a core of its own, or together at any rate."""

    PREFER = "prefer"
    ISOLATE = "isolate"
    REQUIRE = "require"


class PageRequest(StrEnum):
    """A size of memory pages by its kind instead of its number."""

    SMALL = "small"
    LARGE = "large"
    ANY = "any"


@dataclass(frozen=True, slots=True)
class Pages:
    """The memory pages of one size in a host cell. Units: ``size_kib`` KiB, the others pages."""

    size_kib: int
    total: int
    reserved: int = 0
    used: int = 0

    @property
    def free(self) -> int:
        return self.total - self.reserved - self.used


@dataclass(frozen=True, slots=True)
class HostCell:
    """One NUMA cell of a host.

    ``siblings``: the CPUs of each core, its hyperthreads together; a CPU that none of them names is a core of its own.
    ``pages``: by size, the smallest first; empty when the host does not tell.
    ``used_cpus``: vCPUs of guests on the shared CPUs; ``pinned``: dedicated CPUs that are taken.
    Only servers with a NUMA topology of their own are counted in cells.
    """

    id: int
    cpuset: frozenset[int] = frozenset()
    pcpuset: frozenset[int] = frozenset()
    memory_mib: int = 0
    siblings: tuple[frozenset[int], ...] = ()
    pages: tuple[Pages, ...] = ()
    socket: int | None = None
    used_cpus: int = 0
    used_memory_mib: int = 0
    pinned: frozenset[int] = frozenset()

    @property
    def free_pcpus(self) -> frozenset[int]:
        return self.pcpuset - self.pinned

    @property
    def free_memory_mib(self) -> int:
        return self.memory_mib - self.used_memory_mib

    @property
    def cores(self) -> tuple[frozenset[int], ...]:
        """The CPUs of every core, those of cores of one's own included."""
        named = frozenset().union(*self.siblings)
        return (*self.siblings, *(frozenset({cpu}) for cpu in sorted((self.cpuset | self.pcpuset) - named)))

    @property
    def threads(self) -> int:
        """How many hyperthreads the widest core has."""
        return max((len(core) for core in self.siblings), default=1)


@dataclass(frozen=True, slots=True)
class InstanceCell:
    """One NUMA cell of a server: its shared and its dedicated vCPUs by their numbers in the guest, and memory."""

    id: int
    cpuset: frozenset[int]
    pcpuset: frozenset[int]
    memory_mib: int


@dataclass(frozen=True, slots=True)
class InstanceNuma:
    """The NUMA topology of a server. ``page_size``: KiB, a kind, or None when any memory will do.

    ``isolate_emulator``: the emulator gets a dedicated CPU of its own beside the first cell's.
    """

    cells: tuple[InstanceCell, ...]
    cpu_policy: CpuPolicy = CpuPolicy.SHARED
    thread_policy: ThreadPolicy | None = None
    page_size: int | PageRequest | None = None
    isolate_emulator: bool = False

    @property
    def pins(self) -> bool:
        """Tell whether any vCPU is dedicated; memory is then never overcommitted."""
        return self.cpu_policy is not CpuPolicy.SHARED


@dataclass(frozen=True, slots=True)
class CellShare:
    """What one server takes of one host cell.

    ``pinned``: every dedicated CPU that nobody else may have, the emulator's and idle siblings included.
    ``pinning``: (vCPU, host CPU) pairs. ``page_size_kib``: of the ``pages`` that its memory takes, None without pages.
    ``firm_memory``: its memory has to be free, not just within the allocation ratio; ``firm_pages``: its pages have.
    ``shares_cpus``: the allocation ratios bound what it adds to the cell.
    ``vcpus``: of the server's cell, shared and dedicated, by their numbers in the guest.
    """

    cell: int
    memory_mib: int
    cpus: int = 0
    pinned: frozenset[int] = frozenset()
    pinning: tuple[tuple[int, int], ...] = ()
    emulator: frozenset[int] = frozenset()
    page_size_kib: int | None = None
    pages: int = 0
    firm_memory: bool = False
    firm_pages: bool = False
    shares_cpus: bool = True
    vcpus: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Ratios:
    """How far the shared CPUs and the memory of cells may be overcommitted: the host's allocation ratios."""

    cpu: float = 1.0
    memory: float = 1.0
