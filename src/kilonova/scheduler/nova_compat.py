# SPDX-License-Identifier: Apache-2.0
"""Rules written Nova's way: what they see of a host and of a request, and how the engine runs them.

A Nova-style filter has ``host_passes(host_state, spec_obj)``, a Nova-style weigher
``_weigh_object(host_state, weight_properties)``.
They run host by host, after the column rules and only on the hosts those left over.
"""

import inspect
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np

from kilonova.errors import InvalidRequest
from kilonova.model.aggregate import Aggregate
from kilonova.model.host import Capabilities
from kilonova.model.host_devices import HostDevices
from kilonova.model.image import Image
from kilonova.model.numa import InstanceNuma
from kilonova.model.request_spec import RequestSpec
from kilonova.scheduler.devices.numa_request import numa_request
from kilonova.scheduler.host_attributes import COLUMNS
from kilonova.scheduler.host_table import BoolArray, FloatArray, HostTable, IntArray, Rows
from kilonova.scheduler.weighers.base import WeighedHost


class View(dict[str, Any]):
    """A mapping whose keys are attributes as well, because Nova's objects and its older dicts are both in use."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def obj_attr_is_set(self, name: str) -> bool:
        return name in self


class HostState:
    """One host as Nova's filters know it. Read from the table when asked; what a rule writes to it only the rule sees.

    Units: MiB (``*_mb``) and GiB (``*_gb``) as in the names. ``limits`` is a scratch dict.
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
        """The NUMA cells of the host with what is used of them; None when it does not tell."""
        return _numa_view(self._hosts.devices_of(self._row))

    @property
    def pci_stats(self) -> View | None:
        """``pools``: PCI devices that are alike, ``count`` of them free; None when the host has none."""
        return _pci_view(self._hosts.devices_of(self._row))

    @property
    def updated(self) -> datetime:
        """When the host was as it is here: the moment of the decision."""
        return datetime.fromtimestamp(self._hosts.taken_at, UTC)

    @property
    def aggregates(self) -> list[View]:
        """The host aggregates of the host: id, uuid, name, hosts, metadata, availability_zone."""
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
        """Instance uuid → what is known of it here: its uuid and host."""
        return {
            uuid: View(uuid=uuid, host=self.host, node=self.nodename)
            for uuid, row in self._hosts.instance_rows.items()
            if row == self._row
        }

    @property
    def _capabilities(self) -> Capabilities:
        return self._hosts.profiles[int(self._hosts.profile[self._row])]


class RequestView(Mapping[str, Any]):
    """A request as Nova's filters know it: attributes as in RequestSpec, keys as in the older filter_properties.

    So both ``spec_obj.image.properties`` and ``spec_obj.get('request_spec', {}).get('image', {})`` work.
    """

    pci_requests = None
    retry = None
    network_metadata = None
    requested_networks = None
    requested_resources: tuple[Any, ...] = ()
    security_groups: tuple[Any, ...] = ()

    def __init__(self, spec: RequestSpec) -> None:
        self.spec = spec
        self.flavor = _flavor_view(spec)
        self.image = _image_view(spec.image)
        self.project_id = spec.project_id
        self.user_id = spec.user_id
        self.num_instances = spec.num_instances
        self.instance_uuid = spec.instance_uuids[0] if spec.instance_uuids else None
        self.availability_zone = spec.availability_zone
        self.ignore_hosts = sorted(spec.ignore_hosts)
        self.force_hosts = [spec.force_host] if spec.force_host else []
        self.force_nodes = [spec.force_node] if spec.force_node else []
        self.scheduler_hints = {name: list(values) for name, values in spec.hints.items()}
        self.instance_group = _group_view(spec)
        self.requested_destination = (
            View(host=spec.requested_host, node=spec.requested_node) if spec.requested_host else None
        )
        self.is_bfv = spec.volume_backed
        self.limits = View(vcpu=None, memory_mb=None, disk_gb=None, numa_topology=None)
        self._nested = self._filter_properties()

    @property
    def numa_topology(self) -> View | None:
        """The NUMA cells that the server asks for; None when it asks for none, or in contradiction to itself."""
        try:
            wanted = numa_request(self.spec.flavor, self.spec.image)
        except InvalidRequest:
            return None
        return None if wanted is None else _instance_numa_view(wanted)

    @property
    def vcpus(self) -> int:
        return self.spec.flavor.vcpus

    @property
    def memory_mb(self) -> int:
        return self.spec.flavor.memory_mib

    @property
    def root_gb(self) -> int:
        return self.spec.flavor.root_gib

    @property
    def ephemeral_gb(self) -> int:
        return self.spec.flavor.ephemeral_gib

    @property
    def swap(self) -> int:
        return self.spec.flavor.swap_mib

    def get_scheduler_hint(self, name: str, default: Any = None) -> Any:
        """Return the value of a hint: the element of a one-element list, else the list."""
        values = self.scheduler_hints.get(name)
        if values is None:
            return default
        return values[0] if len(values) == 1 else values

    def obj_attr_is_set(self, name: str) -> bool:
        return hasattr(self, name)

    def __getitem__(self, key: str) -> Any:
        return self._nested[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._nested)

    def __len__(self) -> int:
        return len(self._nested)

    def _filter_properties(self) -> dict[str, Any]:
        image = self.image if self.image is not None else View(properties=Properties())
        hints = {name: self.get_scheduler_hint(name) for name in self.scheduler_hints}
        instance = View(
            uuid=self.instance_uuid,
            project_id=self.project_id,
            user_id=self.user_id,
            availability_zone=self.availability_zone,
            vcpus=self.vcpus,
            memory_mb=self.memory_mb,
            root_gb=self.root_gb,
            ephemeral_gb=self.ephemeral_gb,
        )
        request = View(
            image=image,
            instance_properties=instance,
            instance_type=self.flavor,
            instance_uuids=list(self.spec.instance_uuids),
            num_instances=self.num_instances,
        )
        nested: dict[str, Any] = {
            "request_spec": request,
            "instance_type": self.flavor,
            "flavor": self.flavor,
            "image": image,
            "project_id": self.project_id,
            "user_id": self.user_id,
            "availability_zone": self.availability_zone,
            "num_instances": self.num_instances,
            "instance_uuid": self.instance_uuid,
            "scheduler_hints": hints,
            "ignore_hosts": self.ignore_hosts,
            "force_hosts": self.force_hosts,
            "force_nodes": self.force_nodes,
            "limits": self.limits,
        }
        if self.instance_group is not None:
            nested["group_hosts"] = set(self.instance_group.hosts)
            nested["group_policies"] = {self.instance_group.policy}
        return nested


class Properties(View):
    """Image properties, raw. A property the image lacks reads as None when asked for as an attribute."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return super().get(name)


@dataclass(frozen=True, slots=True)
class HostFilterAdapter:
    """Runs a Nova-style filter on the hosts that are left. ``name`` is its class name."""

    name: str
    filter: Any
    reason: str = "its host_passes said no"

    @property
    def run_once(self) -> bool:
        if hasattr(self.filter, "run_filter_for_index"):
            return not self.filter.run_filter_for_index(1)
        return bool(getattr(self.filter, "run_filter_once_per_request", False))

    @property
    def runs_on_rebuild(self) -> bool:
        return bool(getattr(self.filter, "RUN_ON_REBUILD", False))

    def passes(self, hosts: HostTable, spec: RequestSpec) -> BoolArray:
        return self.passes_among(hosts, spec, np.ones(len(hosts), dtype=np.bool_))

    def passes_among(self, hosts: HostTable, spec: RequestSpec, alive: BoolArray) -> BoolArray:
        """Return which of the ``alive`` hosts pass; nobody, when ``filter_all`` returns None. Shapes: (H,) → (H,)."""
        passed = np.zeros(len(hosts), dtype=np.bool_)
        view = RequestView(spec)
        states = {int(row): HostState(hosts, int(row)) for row in np.flatnonzero(alive)}
        if hasattr(self.filter, "filter_all"):
            kept = self.filter.filter_all(list(states.values()), view)
            rows = {id(state): row for row, state in states.items()}
            passed[[rows[id(state)] for state in kept or ()]] = True
        else:
            passed[[row for row, state in states.items() if self.filter.host_passes(state, view)]] = True
        return passed


@dataclass(frozen=True, slots=True)
class HostWeigherAdapter:
    """Runs a Nova-style weigher on the hosts that passed. ``name`` is its class name."""

    name: str
    weigher: Any

    @property
    def minimum(self) -> float | None:
        return getattr(self.weigher, "minval", None)

    @property
    def maximum(self) -> float | None:
        return getattr(self.weigher, "maxval", None)

    def factors(self, hosts: HostTable, rows: Rows) -> float | FloatArray:
        multiplier = getattr(self.weigher, "weight_multiplier", 1.0)
        if not callable(multiplier):
            return float(multiplier)
        if not inspect.signature(multiplier).parameters:  # as it was before aggregates had a say in it
            return float(multiplier())
        return np.array([multiplier(state) for state in _states(hosts, rows)], dtype=np.float64)

    def weigh(self, hosts: HostTable, spec: RequestSpec, rows: Rows) -> FloatArray:
        view, states = RequestView(spec), _states(hosts, rows)
        if hasattr(self.weigher, "weigh_objects"):
            ratings = self.weigher.weigh_objects([WeighedHost(state) for state in states], view)
        else:
            ratings = [self.weigher._weigh_object(state, view) for state in states]  # noqa: SLF001  Nova's name
        return np.array(ratings, dtype=np.float64)


def as_driver_arguments(spec: RequestSpec) -> tuple[View, View]:
    """Return (request_spec, filter_properties) as scheduler drivers know them. The driver may change its copies."""
    properties = View(RequestView(spec))
    tried = sorted({*((host, None) for host in spec.ignore_hosts), *spec.tried}, key=str)
    properties["retry"] = View(num_attempts=len(tried) + 1, hosts=list(map(list, tried))) if tried else None
    properties["ignore_hosts"] = sorted({host for host, _ in tried})
    return properties["request_spec"], properties


def _states(hosts: HostTable, rows: Rows) -> list[HostState]:
    chosen: IntArray = np.arange(len(hosts))[rows]
    return [HostState(hosts, int(row)) for row in chosen]


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
    """Return the cells as Nova's NUMATopology shows them. Units: MiB; pages by their size in KiB."""
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


def _instance_numa_view(wanted: InstanceNuma) -> View:
    cells = [
        View(
            id=cell.id,
            cpuset=set(cell.cpuset),
            pcpuset=set(cell.pcpuset),
            memory=cell.memory_mib,
            pagesize=wanted.page_size,
            cpu_policy=wanted.cpu_policy.value,
            cpu_thread_policy=None if wanted.thread_policy is None else wanted.thread_policy.value,
        )
        for cell in wanted.cells
    ]
    return View(cells=cells, emulator_threads_policy="isolate" if wanted.isolate_emulator else None)


def _pci_view(devices: HostDevices) -> View | None:
    """Return the pools as Nova's PciDeviceStats shows them."""
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


def _flavor_view(spec: RequestSpec) -> View:
    flavor = spec.flavor
    return View(
        flavorid=flavor.flavor_id,
        name=flavor.name,
        vcpus=flavor.vcpus,
        memory_mb=flavor.memory_mib,
        root_gb=flavor.root_gib,
        ephemeral_gb=flavor.ephemeral_gib,
        swap=flavor.swap_mib,
        rxtx_factor=flavor.rxtx_factor,
        is_public=flavor.is_public,
        disabled=flavor.disabled,
        description=flavor.description,
        extra_specs=dict(flavor.extra_specs),
    )


def _image_view(image: Image | None) -> View | None:
    if image is None:
        return None
    return View(
        id=image.id,
        name=image.name,
        status=image.status,
        disk_format=image.disk_format,
        container_format=image.container_format,
        min_ram=image.min_memory_mib,
        min_disk=image.min_disk_gib,
        size=image.size_bytes,
        properties=Properties(image.properties),
    )


def _group_view(spec: RequestSpec) -> View | None:
    group = spec.group
    if group is None:
        return None
    return View(
        uuid=group.uuid,
        policy=group.policy,
        policies=[group.policy],
        hosts=[name for name, members in group.hosts.items() if members > 0],
        members=sorted(group.members),
        rules={"max_server_per_host": group.max_server_per_host},
    )
