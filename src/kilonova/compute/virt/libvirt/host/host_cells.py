# SPDX-License-Identifier: Apache-2.0
"""CPUs and NUMA cells of a host that are offered to guests."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from kilonova.compute.virt.libvirt.host.capabilities import CellFacts
from kilonova.config.host_resources import HostResourceSettings
from kilonova.errors import ConfigurationError
from kilonova.model.cpu_set import cpus_text
from kilonova.model.numa import HostCell, Pages
from kilonova.records import dataclass

_SIZE = re.compile(r"(\d{1,9})\s*(|KB|KIB|MB|MIB|GB|GIB)", re.IGNORECASE)
_KIB = {"": 1, "K": 1, "M": 1024, "G": 1024**2}
_KEYS = {"node", "size", "count"}

#: (id of a NUMA cell, page size in KiB) → number of pages that guests may not use.
ReservedPages = Mapping[tuple[int, int], int]


@dataclass(frozen=True, slots=True)
class GuestCpus:
    """Host CPUs for guests. ``shared``: for all unpinned vCPUs. ``dedicated``: for pinned vCPUs, one CPU for each."""

    shared: frozenset[int]
    dedicated: frozenset[int] = frozenset()


def require_consistent(settings: HostResourceSettings) -> None:
    """Check that the configured CPU sets do not contradict each other. Raises: ConfigurationError."""
    shared, dedicated = settings.cpu_shared_set, settings.cpu_dedicated_set
    if both := (shared or frozenset()) & (dedicated or frozenset()):
        raise ConfigurationError(
            f"[compute] cpu_shared_set and [compute] cpu_dedicated_set both contain the CPUs {cpus_text(both)}."
        )
    if settings.reserved_host_cpus and (shared is not None or dedicated is not None):
        raise ConfigurationError(
            "[DEFAULT] reserved_host_cpus cannot be combined with [compute] cpu_shared_set or cpu_dedicated_set: CPUs "
            "that are in neither set are already reserved for the host."
        )


def cpus_for_guests(online: frozenset[int], settings: HostResourceSettings) -> GuestCpus:
    """Return the host CPUs for guests; by default all online CPUs.

    Raises: ConfigurationError for a configured CPU that does not exist or is offline.
    """
    shared, dedicated = settings.cpu_shared_set, settings.cpu_dedicated_set
    for name, wanted in (("cpu_shared_set", shared), ("cpu_dedicated_set", dedicated)):
        if missing := (wanted or frozenset()) - online:
            raise ConfigurationError(
                f"[compute] {name} contains the CPUs {cpus_text(missing)}, which are missing or offline on this host."
            )
    if shared is None:
        shared = frozenset() if dedicated else online
    return GuestCpus(shared, dedicated or frozenset())


def cells_for_guests(cells: Iterable[CellFacts], cpus: GuestCpus, reserved: ReservedPages) -> tuple[HostCell, ...]:
    """Return the NUMA cells of a host, sorted by id, with the CPUs and memory pages that guests may use."""
    return tuple(_cell(cell, cpus, reserved) for cell in sorted(cells, key=lambda cell: cell.id))


def near_cards(cells: Iterable[HostCell], resources: HostResourceSettings) -> tuple[HostCell, ...]:
    """Return cells with the networks whose cards are near them. Raises: ConfigurationError for an unknown cell."""
    found = tuple(cells)
    known, tunnel = {cell.id for cell in found}, resources.tunnel_nodes or frozenset()
    sections = {f"neutron_physnet_{name}": nodes for name, nodes in resources.physnet_nodes.items()}
    for section, nodes in {**sections, "neutron_tunnel": tunnel}.items():
        if nodes - known:
            raise ConfigurationError(f"[{section}] numa_nodes: this host has no NUMA cell {cpus_text(nodes - known)}.")
    return tuple(
        replace(
            cell,
            physnets=frozenset(name for name, nodes in resources.physnet_nodes.items() if cell.id in nodes),
            tunneled=cell.id in tunnel,
        )
        for cell in found
    )


def read_reserved_pages(texts: Iterable[str]) -> ReservedPages:
    """Parse ``[DEFAULT] reserved_huge_pages``. Raises: ConfigurationError naming the value."""
    found: dict[tuple[int, int], int] = {}
    for text in texts:
        given = dict(part.strip().partition(":")[::2] for part in text.split(",") if part.strip())
        size = _SIZE.fullmatch(given.get("size", "").strip())
        node, count = given.get("node", "").strip(), given.get("count", "").strip()
        if given.keys() != _KEYS or size is None or not (node.isdecimal() and count.isdecimal()):
            raise ConfigurationError(
                f"[DEFAULT] reserved_huge_pages must have the form node:0,size:2048,count:64, not {text!r}."
            )
        found[int(node), int(size[1]) * _KIB[size[2][:1].upper()]] = int(count)
    return found


def _cell(cell: CellFacts, cpus: GuestCpus, reserved: ReservedPages) -> HostCell:
    own = frozenset(cpu.id for cpu in cell.cpus)
    usable = own & (cpus.shared | cpus.dedicated)
    siblings = {cpu.siblings & usable for cpu in cell.cpus} - {frozenset()}
    return HostCell(
        id=cell.id,
        cpuset=own & cpus.shared,
        pcpuset=own & cpus.dedicated,
        memory_mib=cell.memory_kib // 1024,
        siblings=tuple(sorted(siblings, key=min)),
        pages=tuple(
            Pages(size_kib, total, min(total, reserved.get((cell.id, size_kib), 0)))
            for size_kib, total in sorted(cell.pages.items())
        ),
        socket=next((cpu.socket for cpu in cell.cpus if cpu.socket is not None), None),
    )
