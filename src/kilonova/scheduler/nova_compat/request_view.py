# SPDX-License-Identifier: Apache-2.0
"""The view of a request for Nova-style rules and scheduler drivers."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from kilonova.errors import InvalidRequest
from kilonova.model.image import Image
from kilonova.model.numa import InstanceNuma
from kilonova.model.request_spec import RequestSpec
from kilonova.scheduler.nova_compat.view import Properties, View
from kilonova.scheduler.numa_request import numa_request


class RequestView(Mapping[str, Any]):
    """A request with the attributes of Nova's RequestSpec and the keys of Nova's former filter_properties dict.

    Both ``spec_obj.image.properties`` and ``spec_obj.get('request_spec', {}).get('image', {})`` work.
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
        self.requested_destination = _destination_view(spec)
        #: The kind of move of an existing server, None for a new server. Nova has no such attribute.
        self.move = None if spec.move is None else spec.move.value
        self.is_bfv = spec.volume_backed
        self.limits = View(vcpu=None, memory_mb=None, disk_gb=None, numa_topology=None)
        self._nested = self._filter_properties()

    @property
    def numa_topology(self) -> View | None:
        """The requested NUMA cells; None if none are requested, or if flavor and image contradict each other."""
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
        """Return the values of a hint as a list, or the value itself if there is exactly one."""
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
            "move": self.move,
        }
        if self.instance_group is not None:
            nested["group_hosts"] = set(self.instance_group.hosts)
            nested["group_policies"] = {self.instance_group.policy}
        return nested


def as_driver_arguments(spec: RequestSpec, rejected: Collection[str] = ()) -> tuple[View, View]:
    """Return the arguments (request_spec, filter_properties) for a scheduler driver, which may change them.

    ``rejected``: hosts that the driver chose for this request before, but that had no room.
    """
    properties = View(RequestView(spec))
    tried = sorted({*((host, None) for host in rejected), *spec.tried}, key=str)
    properties["retry"] = View(num_attempts=len(tried) + 1, hosts=list(map(list, tried))) if tried else None
    properties["ignore_hosts"] = sorted({*spec.ignore_hosts, *(host for host, _ in tried)})
    return properties["request_spec"], properties


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


def _destination_view(spec: RequestSpec) -> View | None:
    """Return the requested destination and, for a move, the cell of the source, as in Nova.

    None if the request is neither a move nor for a certain host.
    """
    if spec.requested_host is None and spec.move is None:
        return None
    where = View(host=spec.requested_host, node=spec.requested_node)
    if spec.move is not None:
        where["cell"] = spec.source_cell
        where["allow_cross_cell_move"] = spec.source_cell is not None
    return where


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
