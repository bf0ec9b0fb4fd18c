# SPDX-License-Identifier: Apache-2.0
"""Hosts and requests as Nova's objects, and calls of Nova's filters and weighers on them."""

import json
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any
from uuid import NAMESPACE_OID, uuid5

from nova import conf, objects, weights
from nova.objects import fields
from nova.scheduler import filters, host_manager, request_filter
from nova.scheduler import weights as host_weights
from nova.scheduler.weights import image_props
from oslo_utils import timeutils

from kilonova.model.aggregate import Aggregate
from kilonova.model.flavor import Flavor
from kilonova.model.image import Image
from kilonova.model.request_spec import RequestSpec
from kilonova.scheduler.host_records import HostRecord
from kilonova.scheduler.settings import SchedulerConfig
from scheduler_peer import nova_devices
from support.random_clouds import NOW, Cloud

_MEASURED = (
    "isolated_images",
    "isolated_hosts",
    "restrict_isolated_hosts_to_isolated_images",
    "max_io_ops_per_host",
    "max_instances_per_host",
    "image_properties_default_architecture",
    "aggregate_image_properties_isolation_namespace",
    "aggregate_image_properties_isolation_separator",
    "image_props_weight_setting",
    *(
        f"{name}_weight_multiplier"
        for name in (
            *("ram", "cpu", "disk", "io_ops", "num_instances", "hypervisor_version", "image_props", "build_failure"),
            *("pci", "soft_affinity", "soft_anti_affinity"),
        )
    ),
)


class Refused(Exception):
    """Nova rejects the request before it is scheduled."""


def start(now: float = NOW) -> None:
    """Load an empty configuration into Nova, stop its clock at ``now``, and cut its weighers off the database."""
    conf.CONF([], project="nova", default_config_files=[])
    objects.register_all()
    timeutils.set_time_override(datetime.fromtimestamp(now, UTC).replace(tzinfo=None))
    image_props.objects.CellMapping.get_by_uuid = lambda _context, uuid: uuid
    image_props.nova_context.target_cell = lambda context, _cell: nullcontext(context)
    image_props.objects.InstanceList.fill_metadata = _fill_metadata
    objects.service.get_minimum_version_all_cells = lambda *_: request_filter.MIN_COMPUTE_VERSION_OWNER_TRAIT


def _fill_metadata(instances: Any) -> None:
    """Set the metadata of instances that the database does not know yet, as Nova's query does."""
    for each in instances:
        if "system_metadata" not in each:
            each.system_metadata = {}


def configure(config: SchedulerConfig) -> None:
    """Set Nova's options to the values of a Kilonova configuration."""
    for name in _MEASURED:
        value = getattr(config, name)
        conf.CONF.set_override(name, list(value) if isinstance(value, tuple) else value, "filter_scheduler")
    for name in ("weight_multiplier", "weight_setting", "required", "weight_of_unavailable"):
        value = getattr(config, f"metrics_{name}")
        conf.CONF.set_override(name, list(value) if isinstance(value, tuple) else value, "metrics")
    conf.CONF.set_override("alias", list(config.pci_alias), "pci")
    nova_devices.forget_aliases()


def filter_classes() -> dict[str, Any]:
    """Return the filters of this Nova, by class name."""
    return {cls.__name__: cls for cls in filters.all_filters()}


def weigher_classes() -> dict[str, Any]:
    """Return the weighers of this Nova, by class name."""
    return {cls.__name__: cls for cls in host_weights.all_weighers()}


def member_uuid(host: str, number: int) -> str:
    return str(uuid5(NAMESPACE_OID, f"member {number} on {host}"))


def instance_uuid(name: str) -> str:
    return str(uuid5(NAMESPACE_OID, f"instance {name}"))


def cell_uuid(cell: str) -> str:
    return str(uuid5(NAMESPACE_OID, f"cell {cell}"))


def host_states(cloud: Cloud) -> list[Any]:
    """Return the hosts of a cloud, without the members of any group."""
    listed = {
        each.id: objects.Aggregate(id=each.id, name=each.name, hosts=list(each.hosts), metadata=dict(each.metadata))
        for each in cloud.aggregates
    }
    return [_host_state(host, [listed[each.id] for each in cloud.aggregates_of(host.host)]) for host in cloud.records]


def with_metadata(aggregate: Any, metadata: Mapping[str, str]) -> Any:
    """Return a copy of an aggregate with other metadata."""
    return objects.Aggregate(id=aggregate.id, name=aggregate.name, hosts=aggregate.hosts, metadata=dict(metadata))


def _host_state(host: HostRecord, aggregates: list[Any]) -> Any:
    state = host_manager.HostState(host.host, host.node or host.host, cell_uuid(host.cell_uuid))
    have = {each.resource_class: each for each in host.inventories}

    def total(name: str) -> int:
        return have[name].total if name in have else 0

    def free(name: str) -> int:
        return total(name) - (have[name].reserved if name in have else 0) - host.used.get(name, 0)

    state.uuid = instance_uuid(host.host)
    state.vcpus_total, state.vcpus_used = total("VCPU"), total("VCPU") - free("VCPU")
    state.cpu_allocation_ratio = have["VCPU"].allocation_ratio
    state.ram_allocation_ratio = have["MEMORY_MB"].allocation_ratio
    state.total_usable_ram_mb, state.free_ram_mb = total("MEMORY_MB"), free("MEMORY_MB")
    state.total_usable_disk_gb, state.free_disk_mb = total("DISK_GB"), free("DISK_GB") * 1024
    state.disk_mb_used = state.total_usable_disk_gb * 1024 - state.free_disk_mb
    state.num_instances, state.num_io_ops = host.num_instances, host.num_io_ops
    state.failed_builds = host.failed_builds
    state.host_ip = fields.IPAddress().coerce(None, "host_ip", host.host_ip)
    make = host.capabilities
    state.hypervisor_type, state.hypervisor_version = make.hypervisor_type, make.hypervisor_version
    state.hypervisor_hostname = host.node or host.host
    state.cpu_info = json.dumps(dict(make.cpu_info))
    state.supported_instances = [list(triple) for triple in make.supported_instances]
    state.stats = {
        **make.extra,
        "num_instances": str(host.num_instances),
        "io_workload": str(host.num_io_ops),
        "failed_builds": str(host.failed_builds),
    }
    state.metrics = [SimpleNamespace(name=name, value=value) for name, value in host.metrics.items()]
    state.numa_topology, state.pci_stats = nova_devices.topology(host.devices), nova_devices.pci_stats(host.devices)
    state.aggregates = aggregates
    state.service = {
        "host": host.host,
        "binary": "nova-compute",
        "disabled": host.disabled,
        "disabled_reason": "",
        "forced_down": host.forced_down,
        "last_seen_up": datetime.fromtimestamp(host.last_seen, UTC),
        "created_at": datetime.fromtimestamp(0, UTC),
    }
    state.instances = {instance_uuid(name): instance(instance_uuid(name), {}) for name in host.instances}
    for number, guest in enumerate(host.guests):
        uuid = instance_uuid(f"{host.host} {number}")
        state.instances[uuid] = instance(uuid, dict(guest.image_properties))
    return state


def instance(uuid: str, properties: dict[str, str]) -> Any:
    """Return an instance whose image has these properties."""
    system = {f"image_{name}": value for name, value in properties.items()}
    return objects.Instance(uuid=uuid, image_ref="image", system_metadata=system)


def with_members(states: list[Any], spec: RequestSpec) -> None:
    """Place the members of the request's group on the hosts, and remove those of the previous request."""
    for state in states:
        for number in range(4):
            state.instances.pop(member_uuid(state.host, number), None)
        for number in range(spec.group.hosts.get(state.host, 0) if spec.group else 0):
            uuid = member_uuid(state.host, number)
            state.instances[uuid] = instance(uuid, {})


def request_spec(spec: RequestSpec) -> Any:
    """Return a request as Nova builds it. Raises: Refused."""
    one = len(spec.instance_uuids) == 1
    hints = {
        name: [instance_uuid(value) if value else "" for value in values] if name.endswith("_host") else list(values)
        for name, values in spec.hints.items()
    }
    return objects.RequestSpec(
        flavor=flavor(spec.flavor),
        image=None if spec.image is None else image(spec.image),
        project_id=spec.project_id,
        instance_uuid=instance_uuid(spec.instance_uuids[0] if one else "new"),
        availability_zone=spec.availability_zone,
        scheduler_hints=hints,
        instance_group=_group(spec),
        requested_destination=None if spec.source_cell is None else _destination(spec.source_cell),
        num_instances=spec.num_instances,
        numa_topology=None,
        pci_requests=None,
    )


def flavor(ours: Flavor) -> Any:
    """Return a flavor as Nova's object."""
    return objects.Flavor(
        flavorid=ours.flavor_id,
        name=ours.name,
        vcpus=ours.vcpus,
        memory_mb=ours.memory_mib,
        root_gb=ours.root_gib,
        ephemeral_gb=ours.ephemeral_gib,
        swap=ours.swap_mib,
        extra_specs=dict(ours.extra_specs),
    )


def image(ours: Image | None) -> Any:
    """Return an image as Nova's object. Raises: Refused."""
    given = (
        {"properties": {}} if ours is None else {"id": ours.id, "name": ours.id, "properties": dict(ours.properties)}
    )
    try:
        return objects.ImageMeta.from_dict(given)
    except (ValueError, fields.exception.Invalid, fields.exception.NovaException) as error:
        raise Refused(str(error)) from error


def with_devices(theirs: Any) -> Any:
    """Add the NUMA and PCI requests that Nova reads from flavor and image. Raises: Refused."""
    try:
        theirs.numa_topology = nova_devices.numa_topology(theirs.flavor, theirs.image)
        theirs.pci_requests = nova_devices.pci_requests(theirs.flavor, theirs.image)
    except nova_devices.REFUSALS as error:
        raise Refused(str(error)) from error
    return theirs


def _group(spec: RequestSpec) -> Any:
    group = spec.group
    if group is None:
        return None
    there = [host for host, members in group.hosts.items() if members]
    members = [member_uuid(host, number) for host in there for number in range(group.hosts[host])]
    rules = {"max_server_per_host": str(group.max_server_per_host)} if group.policy == "anti-affinity" else {}
    return objects.InstanceGroup(
        uuid=instance_uuid(group.uuid),
        policy=group.policy,
        policies=[group.policy],
        hosts=there,
        members=members,
        _rules=rules,
    )


def _destination(cell: str) -> Any:
    mapping = objects.CellMapping(uuid=cell_uuid(cell))
    return objects.Destination(cell=mapping, allow_cross_cell_move=True)


def passes(rule: Any, state: Any, spec: Any) -> bool | Exception:
    """Return the verdict of a filter on one host, or the exception that it raised."""
    state.allocation_candidates = [{"mappings": {}}]  # some filters remove unsuitable candidates from this list
    try:
        return bool(rule.host_passes(state, spec))
    except Exception as error:  # noqa: BLE001  any error is an answer
        return error


def shares(weigher: Any, states: list[Any], spec: Any) -> list[float] | Exception:
    """Return the weigher's share of each host's score, or the exception that it raised."""
    weighed = [weights.WeighedObject(state, 0.0) for state in states]
    try:
        ratings = weigher.weigh_objects(weighed, spec)
        scaled = weights.normalize(ratings, minval=weigher.minval, maxval=weigher.maxval)
        return [float(weigher.weight_multiplier(each.obj) * part) for each, part in zip(weighed, scaled, strict=True)]
    except Exception as error:  # noqa: BLE001
        return error


def know_aggregates(aggregates: Sequence[Aggregate]) -> None:
    """Replace the aggregate queries of Nova's request filters: they return only these aggregates."""
    known = [objects.Aggregate(uuid=each.uuid, metadata=dict(each.metadata)) for each in aggregates]

    def by_metadata(_context: Any, key: str | None = None, value: str | None = None) -> list[Any]:
        return [
            each
            for each in known
            if any(key in {None, name} and value in {None, text} for name, text in each.metadata.items())
        ]

    def not_matching(_context: Any, keys: list[str], prefix: str, value: str) -> list[Any]:
        return [
            each
            for each in known
            if any(
                name not in keys and name.startswith(prefix) and text == value for name, text in each.metadata.items()
            )
        ]

    objects.AggregateList.get_by_metadata = by_metadata
    objects.aggregate.AggregateList.get_non_matching_by_metadata_keys = not_matching
