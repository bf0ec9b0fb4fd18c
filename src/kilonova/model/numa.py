# SPDX-License-Identifier: Apache-2.0
"""NUMA: the cells of a host with their usage, and the cells that a server requests.

A host cell has shared CPUs (``cpuset``), over which the vCPUs of many guests float, and dedicated CPUs (``pcpuset``):
a dedicated CPU is pinned to one vCPU of one guest.
"""

from enum import StrEnum

from kilonova.records import dataclass


class CpuPolicy(StrEnum):
    SHARED = "shared"
    DEDICATED = "dedicated"
    MIXED = "mixed"


class ThreadPolicy(StrEnum):
    """Thread policy for dedicated vCPUs.

    ``PREFER``: on thread siblings if possible; ``ISOLATE``: each on a separate core; ``REQUIRE``: on thread siblings.
    """

    PREFER = "prefer"
    ISOLATE = "isolate"
    REQUIRE = "require"


class PageRequest(StrEnum):
    """A memory page size requested by kind instead of in KiB."""

    SMALL = "small"
    LARGE = "large"
    ANY = "any"


@dataclass(frozen=True, slots=True)
class Pages:
    """Memory pages of one size in a host cell. Units: ``size_kib`` in KiB, all other fields in pages."""

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

    ``siblings``: the sets of CPUs that share a core. A CPU that is in no set is the only CPU of its core.
    ``pages``: sorted by page size, smallest first; empty if the host does not report pages.
    ``used_cpus``: number of vCPUs on the shared CPUs; ``pinned``: dedicated CPUs in use.
    ``used_cpus``, ``used_memory_mib`` and ``pinned`` include only servers with a NUMA topology.
    ``physnets``: physical networks whose cards are near the cell; ``tunneled``: the card of overlay networks is.
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
    physnets: frozenset[str] = frozenset()
    tunneled: bool = False

    @property
    def free_pcpus(self) -> frozenset[int]:
        return self.pcpuset - self.pinned

    @property
    def free_memory_mib(self) -> int:
        return self.memory_mib - self.used_memory_mib

    @property
    def cores(self) -> tuple[frozenset[int], ...]:
        """The CPUs of every core, including cores with a single CPU."""
        named = frozenset().union(*self.siblings)
        return (*self.siblings, *(frozenset({cpu}) for cpu in sorted((self.cpuset | self.pcpuset) - named)))

    @property
    def threads(self) -> int:
        """Largest number of hyperthreads per core."""
        return max((len(core) for core in self.siblings), default=1)


@dataclass(frozen=True, slots=True)
class InstanceCell:
    """One NUMA cell of a server: its shared (``cpuset``) and dedicated (``pcpuset``) vCPU numbers, and its memory."""

    id: int
    cpuset: frozenset[int]
    pcpuset: frozenset[int]
    memory_mib: int


@dataclass(frozen=True, slots=True)
class InstanceNuma:
    """The NUMA topology of a server. ``page_size``: size in KiB, or a kind of page, or None if no size is requested.

    ``isolate_emulator``: whether an additional dedicated CPU of the first cell is reserved for the emulator threads.
    """

    cells: tuple[InstanceCell, ...]
    cpu_policy: CpuPolicy = CpuPolicy.SHARED
    thread_policy: ThreadPolicy | None = None
    page_size: int | PageRequest | None = None
    isolate_emulator: bool = False

    @property
    def pins(self) -> bool:
        """True if a vCPU of the server is dedicated. The memory of such a server is not overcommitted."""
        return self.cpu_policy is not CpuPolicy.SHARED


@dataclass(frozen=True, slots=True)
class CellShare:
    """The share of one host cell that one server uses.

    ``cell``: id of the host cell. ``cpus``: number of shared CPUs.
    ``pinned``: all reserved dedicated CPUs, including those for the emulator and unused thread siblings.
    ``pinning``: (vCPU, host CPU) pairs. ``emulator``: host CPUs for the emulator threads.
    ``pages``: number of memory pages of the size ``page_size_kib``, which is None if pages are not counted.
    ``firm_memory``: the memory must be free without overcommitment. ``firm_pages``: the pages must be free.
    ``shares_cpus``: the allocation ratios limit the usage of CPUs and memory.
    ``vcpus``: numbers of the shared and dedicated vCPUs of the server's cell.
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
    """Allocation ratios for the shared CPUs and the memory of a host's NUMA cells."""

    cpu: float = 1.0
    memory: float = 1.0
