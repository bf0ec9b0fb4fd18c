# SPDX-License-Identifier: Apache-2.0
"""The view of one host for Nova-style rules."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from kilonova.model.aggregate import Aggregate
from kilonova.model.host import Capabilities
from kilonova.model.host_devices import HostDevices
from kilonova.scheduler.host_attributes import COLUMNS
from kilonova.scheduler.host_table import HostTable
from kilonova.scheduler.nova_compat.view import View


class HostState:
    """One host with the attributes of Nova's HostState, read from the host table at each access.

    A rule may set attributes; this changes only the HostState object. ``limits``: a dict for the rule's own use.
    Units: MiB (``*_mb``) and GiB (``*_gb``) as in the names.
    """

    __slots__ = ("__dict__", "_hosts", "_row", "limits")

    metrics: tuple[Any, ...] = ()
    allocation_candidates: tuple[Any, ...] = ()
    cell_uuid = None

    def __init__(self, hosts: HostTable, row: int) -> None:
        self._hosts = hosts
        self._row = row
        self.limits: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        column = COLUMNS.get(name)
        if column is None:
            raise AttributeError(f"a host has no attribute {name!r}")
        return column(self._hosts, slice(self._row, self._row + 1)).item()

    def __dir__(self) -> Iterable[str]:
        return sorted({*super().__dir__(), *COLUMNS})

    def __str__(self) -> str:
        return (
            f"({self.host}, {self.nodename}) ram:{self.free_ram_mb} disk:{self.free_disk_mb} "
            f"io_ops:{self.num_io_ops} instances:{self.num_instances}"
        )

    __repr__ = __str__

    @property
    def host(self) -> str:
        return self._hosts.hosts[self._row]

    @property
    def nodename(self) -> str:
        return self._hosts.nodes[self._row]

    @property
    def hypervisor_hostname(self) -> str:
        return self.nodename

    @property
    def uuid(self) -> str:
        return self._hosts.uuids[self._row]

    @property
    def host_ip(self) -> str:
        return self._hosts.host_ips[self._row]

    @property
    def numa_topology(self) -> View | None:
        """The NUMA cells of the host with their usage, or None if the host reports no cells."""
        return _numa_view(self._hosts.devices_of(self._row))

    @property
    def pci_stats(self) -> View | None:
        """The PCI device pools of the host with the number of free devices as ``count``; None if there are no pools."""
        return _pci_view(self._hosts.devices_of(self._row))

    @property
    def updated(self) -> datetime:
        """The time of the host table's snapshot."""
        return datetime.fromtimestamp(self._hosts.taken_at, UTC)

    @property
    def aggregates(self) -> list[View]:
        """The aggregates of the host: id, uuid, name, hosts, metadata, availability_zone."""
        return [_aggregate_view(aggregate) for aggregate in self._hosts.aggregates.of_host(self._row)]

    @property
    def hypervisor_type(self) -> str:
        return self._capabilities.hypervisor_type

    @property
    def hypervisor_version(self) -> int:
        return self._capabilities.hypervisor_version

    @property
    def supported_instances(self) -> list[list[str]]:
        return [list(triple) for triple in self._capabilities.supported_instances]

    @property
    def cpu_info(self) -> Mapping[str, Any]:
        return self._capabilities.cpu_info

    @property
    def stats(self) -> dict[str, Any]:
        return {
            **self._capabilities.extra,
            "num_instances": self.num_instances,
            "io_workload": self.num_io_ops,
            "failed_builds": self.failed_builds,
        }

    @property
    def service(self) -> View:
        hosts, row = self._hosts, self._row
        return View(
            host=self.host,
            disabled=bool(hosts.disabled[row]),
            disabled_reason=hosts.disabled_reasons.get(row),
            forced_down=bool(hosts.forced_down[row]),
            last_seen_up=float(hosts.last_seen[row]),
        )

    @property
    def instances(self) -> dict[str, View]:
        """Instance uuid → view of the instance, with only its uuid, host and node."""
        return {
            uuid: View(uuid=uuid, host=self.host, node=self.nodename)
            for uuid, row in self._hosts.instance_rows.items()
            if row == self._row
        }

    @property
    def _capabilities(self) -> Capabilities:
        return self._hosts.profiles[int(self._hosts.profile[self._row])]


def _aggregate_view(aggregate: Aggregate) -> View:
    return View(
        id=aggregate.id,
        uuid=aggregate.uuid,
        name=aggregate.name,
        hosts=list(aggregate.hosts),
        metadata=dict(aggregate.metadata),
        availability_zone=aggregate.availability_zone,
    )


def _numa_view(devices: HostDevices) -> View | None:
    """Return a view of the NUMA cells like Nova's NUMATopology; None if there are none. Units: MiB; page sizes KiB."""
    if not devices.cells:
        return None
    cells = [
        View(
            id=cell.id,
            cpuset=set(cell.cpuset),
            pcpuset=set(cell.pcpuset),
            memory=cell.memory_mib,
            cpu_usage=cell.used_cpus,
            memory_usage=cell.used_memory_mib,
            avail_memory=cell.free_memory_mib,
            pinned_cpus=set(cell.pinned),
            free_pcpus=set(cell.free_pcpus),
            avail_pcpus=len(cell.free_pcpus),
            siblings=[set(core) for core in cell.siblings],
            has_threads=cell.threads > 1,
            socket=cell.socket,
            mempages=[
                View(
                    size_kb=pages.size_kib,
                    total=pages.total,
                    used=pages.used,
                    reserved=pages.reserved,
                    free=pages.free,
                )
                for pages in cell.pages
            ],
        )
        for cell in devices.cells
    ]
    return View(cells=cells, has_threads=any(cell.has_threads for cell in cells))


def _pci_view(devices: HostDevices) -> View | None:
    """Return a view of the PCI device pools like Nova's PciDeviceStats, or None if there are no pools."""
    pools = [
        View(
            dict(pool.tags),
            vendor_id=pool.vendor_id,
            product_id=pool.product_id,
            numa_node=pool.numa_node,
            dev_type=pool.dev_type,
            count=pool.free,
        )
        for pool in devices.pools
    ]
    return View(pools=pools) if pools else None
