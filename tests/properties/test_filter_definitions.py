# SPDX-License-Identifier: Apache-2.0
"""Every vectorized filter equals its reference definition for one host, written as plainly as the admin guide."""

import ipaddress
import json
import operator
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.properties.device_definitions import fits_cells, has_devices
from tests.properties.strategies import NOW, Cloud, clouds, requests

from kilonova.cli.wiring.rules import build_engine
from kilonova.model.address import canonical_address
from kilonova.model.aggregate import Aggregate
from kilonova.model.numa import Ratios
from kilonova.model.request_spec import RequestSpec
from kilonova.scheduler.extra_specs import match
from kilonova.scheduler.filters import FILTERS
from kilonova.scheduler.host_records import HostRecord
from kilonova.scheduler.settings import SchedulerConfig
from support.device_clouds import ALIASES
from support.random_clouds import random_cloud, random_request

CONFIG = SchedulerConfig(
    enabled_filters=tuple(FILTERS),
    isolated_images=("secret",),
    isolated_hosts=("node1", "node2"),
    max_io_ops_per_host=5,
    max_instances_per_host=30,
    pci_alias=ALIASES,
    metrics_weight_setting=("cpu.percent=1.0", "power=-2.5", "bad"),
)
RULES: dict[str, Any] = dict(zip(FILTERS, build_engine(CONFIG).filters, strict=True))
Aggregates = list[Aggregate]


def words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",")]


def values_of(key: str, aggregates: Aggregates) -> list[str]:
    return [word for each in aggregates if key in each.metadata for word in words(each.metadata[key])]


def compute(host: HostRecord, aggregates: Aggregates, spec: RequestSpec) -> bool:
    return not host.disabled and not host.forced_down and abs(NOW - host.last_seen) <= 60


def extra_specs(host: HostRecord, aggregates: Aggregates, spec: RequestSpec) -> bool:
    for key, requirement in spec.flavor.extra_specs.items():
        scope, colon, rest = key.partition(":")
        if colon and scope != "aggregate_instance_extra_specs":
            continue
        if not any(match(value, requirement) for value in values_of(rest if colon else key, aggregates)):
            return False
    return True


def image_isolation(host: HostRecord, aggregates: Aggregates, spec: RequestSpec) -> bool:
    properties = spec.image.properties if spec.image else {}
    for key in {key for each in aggregates for key in each.metadata}:
        if properties.get(key) and str(properties[key]) not in values_of(key, aggregates):
            return False
    return True


def tenants(host: HostRecord, aggregates: Aggregates, spec: RequestSpec) -> bool:
    keys = {key for each in aggregates for key in each.metadata if key.startswith("filter_tenant_id")}
    return not keys or any(spec.project_id in values_of(key, aggregates) for key in keys)


def type_affinity(host: HostRecord, aggregates: Aggregates, spec: RequestSpec) -> bool:
    listed = values_of("instance_type", aggregates)
    return not listed or spec.flavor.name in listed


def limit(key: str, aggregates: Aggregates, default: int) -> int:
    raw = [each.metadata[key] for each in aggregates if key in each.metadata]
    try:
        return min((int(value) for value in raw), default=default)
    except ValueError:
        return default


def capabilities(host: HostRecord, aggregates: Aggregates, spec: RequestSpec) -> bool:
    make = host.capabilities
    memory = host.inventories[1]
    known: dict[str, Any] = {
        "hypervisor_type": make.hypervisor_type,
        "num_instances": host.num_instances,
        "free_ram_mb": memory.total - memory.reserved - host.used["MEMORY_MB"],
        "vcpus_used": host.used["VCPU"] + host.inventories[0].reserved,
        "cpu_info": make.cpu_info,
        "io_workload": host.num_io_ops,
        "stats": {"io_workload": host.num_io_ops},
        "hypervisor_version": make.hypervisor_version,
        "cpu_allocation_ratio": host.inventories[0].allocation_ratio,
        "failed_builds": host.failed_builds,
        "host": host.host,
        "host_ip": canonical_address(host.host_ip),
    }
    specs = dict(spec.flavor.extra_specs)
    if (bits := specs.pop("hw:maxphysaddr_bits", None)) is not None:
        specs["capabilities:cpu_info:maxphysaddr:bits"] = f">= {bits}"
    for key, requirement in specs.items():
        path = key.split(":")
        if len(path) > 1 and path.pop(0) != "capabilities":
            continue
        value: Any = known.get(path[0], make.extra.get(path[0]))
        if value is None and ":" not in key:
            continue
        for part in path[1:]:
            value = value.get(part) if isinstance(value, dict) else None
        if value is None or not match(str(value), requirement):
            return False
    return True


def image_properties(host: HostRecord, aggregates: Aggregates, spec: RequestSpec) -> bool:
    properties = spec.image.properties if spec.image else {}
    wanted = {properties[key] for key in ("hw_architecture", "img_hv_type", "hw_vm_mode") if properties.get(key)}
    wanted = {"x86_64" if value == "amd64" else value for value in wanted}
    if not wanted:
        return True
    if not any(wanted <= set(triple) for triple in host.capabilities.supported_instances):
        return False
    version = host.capabilities.hypervisor_version
    have = (version // 1_000_000, version // 1_000 % 1_000, version % 1_000)
    demand = properties.get("img_hv_requested_version")
    if demand and version:
        accepted = {">=7.0": have >= (7, 0, 0), "<7.0,>=6.2": (6, 2, 0) <= have < (7, 0, 0)}
        if not accepted.get(demand, False):
            return False
    bits, asked = host.capabilities.cpu_info.get("maxphysaddr", {}).get("bits"), properties.get("hw_maxphysaddr_bits")
    return not asked or bits is None or (asked.isdecimal() and int(asked) <= bits)


def apart(host: HostRecord, aggregates: Aggregates, spec: RequestSpec) -> bool:
    group = spec.group
    if group is None or group.policy != "anti-affinity":
        return True
    at_home = len(spec.instance_uuids) == 1 and spec.instance_uuids[0] in host.instances
    return at_home or group.hosts.get(host.host, 0) < group.max_server_per_host


def together(host: HostRecord, aggregates: Aggregates, spec: RequestSpec) -> bool:
    group = spec.group
    if group is None or group.policy != "affinity" or not any(group.hosts.values()):
        return True
    return group.hosts.get(host.host, 0) > 0


def different(host: HostRecord, aggregates: Aggregates, spec: RequestSpec) -> bool:
    return not set(spec.hints.get("different_host", ())) & set(host.instances)


def same(host: HostRecord, aggregates: Aggregates, spec: RequestSpec) -> bool:
    sought = set(spec.hints.get("same_host", ()))
    return spec.hints.get("same_host", ()) in {(), ("",)} or bool(sought & set(host.instances))


def near(host: HostRecord, aggregates: Aggregates, spec: RequestSpec) -> bool:
    (address,), (cidr,) = spec.hints.get("build_near_host_ip", ("",)), spec.hints.get("cidr", ("/24",))
    if not address:
        return True
    place, slash, mask = (address + cidr).partition("/")
    if "%" in place:
        return False
    try:
        mine, wanted = ipaddress.ip_address(host.host_ip), ipaddress.ip_address(place)
        marked = mask_bits(mask, wanted) if slash else 2**wanted.max_prefixlen - 1
    except ValueError:
        return False
    return mine.version == wanted.version and int(mine) & marked == int(wanted) & marked


def mask_bits(text: str, address: Any) -> int:
    """Return the bits of an address that a prefix length or a mask selects. Raises: ValueError."""
    width = address.max_prefixlen
    try:
        count = int(text)
    except ValueError:
        mask = ipaddress.ip_address(text)
    else:
        if not 0 <= count <= width:
            raise ValueError(text)
        return int("1" * count + "0" * (width - count), 2)
    bits = f"{int(mask):0{width}b}"
    if "10" not in bits and "1" in bits and "0" in bits:  # a mask such as 0.0.0.255 selects the host part
        bits = bits.translate(str.maketrans("01", "10"))
    if mask.version != address.version or "01" in bits:
        raise ValueError(text)
    return int(bits, 2)


def isolated(host: HostRecord, aggregates: Aggregates, spec: RequestSpec) -> bool:
    return (spec.image is not None and spec.image.id == "secret") == (host.host in ("node1", "node2"))


def ratios(host: HostRecord) -> Ratios:
    return Ratios(host.inventories[0].allocation_ratio, host.inventories[1].allocation_ratio)


def zone(host: HostRecord, aggregates: Aggregates, spec: RequestSpec) -> bool:
    zones = values_of("availability_zone", aggregates) or ["nova"]
    return spec.availability_zone is None or spec.availability_zone in zones


def inventory(host: HostRecord, name: str) -> tuple[int, int, float]:
    """Return total, used plus reserved, and the allocation ratio of a resource class."""
    for each in host.inventories:
        if each.resource_class == name:
            reserved = each.reserved
            return each.total, reserved + host.used.get(name, 0), each.allocation_ratio
    return 0, 0, 1.0


def ratio(key: str, aggregates: Aggregates, own: float) -> float:
    try:
        return min((float(each.metadata[key]) for each in aggregates if key in each.metadata), default=own)
    except ValueError:
        return own


def core(host: HostRecord, aggregates: Aggregates, spec: RequestSpec) -> bool:
    total, used, own = inventory(host, "VCPU")
    return total == 0 or total * ratio("cpu_allocation_ratio", aggregates, own) - used >= spec.flavor.vcpus


def ram(host: HostRecord, aggregates: Aggregates, spec: RequestSpec) -> bool:
    total, used, own = inventory(host, "MEMORY_MB")
    return total * ratio("ram_allocation_ratio", aggregates, own) - used >= spec.flavor.memory_mib


def wanted_disk(spec: RequestSpec) -> int:
    return 1024 * (spec.flavor.root_gib + spec.flavor.ephemeral_gib) + spec.flavor.swap_mib


def disk(host: HostRecord, aggregates: Aggregates, spec: RequestSpec) -> bool:
    total, used, own = inventory(host, "DISK_GB")
    return 1024 * (total * ratio("disk_allocation_ratio", aggregates, own) - used) >= wanted_disk(spec)


def exactly(name: str, wanted: Callable[[RequestSpec], int], scale: int = 1) -> Any:
    def fits(host: HostRecord, aggregates: Aggregates, spec: RequestSpec) -> bool:
        total, used, _ = inventory(host, name)
        return (total - used) * scale == wanted(spec)

    return fits


def one_flavor(host: HostRecord, aggregates: Aggregates, spec: RequestSpec) -> bool:
    return {guest.flavor_id for guest in host.guests} <= {spec.flavor.flavor_id}


class NoQuery(Exception):
    """The text is not a valid expression."""


def attribute(host: HostRecord, path: str) -> Any:
    """Return the value of a host attribute in a query, or None if the attribute does not exist."""
    make = host.capabilities
    known = {
        "free_ram_mb": inventory(host, "MEMORY_MB")[0] - inventory(host, "MEMORY_MB")[1],
        "vcpus_used": host.used["VCPU"] + host.inventories[0].reserved,
        "num_instances": host.num_instances,
        "stats.io_workload": host.num_io_ops,
        "hypervisor_type": make.hypervisor_type,
        "hypervisor_version": make.hypervisor_version,
        "host": host.host,
        "host_ip": canonical_address(host.host_ip),
        **{f"stats.{name}": value for name, value in make.extra.items()},
    }
    return known.get(path)


def evaluate(query: Any, host: HostRecord) -> bool:
    if not isinstance(query, list):
        raise NoQuery
    if not query:
        return True
    cooked = []
    for argument in query[1:]:
        if isinstance(argument, dict):
            raise NoQuery
        value = argument
        if isinstance(argument, list):
            value = evaluate(argument, host)
        elif isinstance(argument, str):
            value = attribute(host, argument[1:]) if argument.startswith("$") else argument or None
        if value is not None:
            cooked.append(value)
    match query[0]:
        case "and":
            return all(cooked)
        case "or":
            return any(cooked)
        case "not":
            return any(not each for each in cooked)
        case "in":
            return len(cooked) > 1 and cooked[0] in cooked[1:]
        case "=" | "<" | ">" | "<=" | ">=" as name:
            return len(cooked) > 1 and all(compared(name, cooked[0], other) for other in cooked[1:])
    raise NoQuery


def compared(name: str, one: Any, other: Any) -> bool:
    compare = {"=": operator.eq, "<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge}[name]
    try:
        return bool(compare(one, other))
    except TypeError:
        return False


def query(host: HostRecord, aggregates: Aggregates, spec: RequestSpec) -> bool:
    (text,) = spec.hints.get("query", ("",))
    if not text:
        return True
    try:
        decoded = json.loads(text)
        return True if decoded in (0, {}) else evaluate(decoded, host)
    except (ValueError, NoQuery):
        return False


DEFINITIONS: dict[str, Callable[[HostRecord, Aggregates, RequestSpec], bool]] = {
    "AggregateCoreFilter": core,
    "AggregateDiskFilter": disk,
    "AggregateRamFilter": ram,
    "AvailabilityZoneFilter": zone,
    "CoreFilter": lambda host, _, spec: core(host, [], spec),
    "DiskFilter": lambda host, _, spec: disk(host, [], spec),
    "ExactCoreFilter": exactly("VCPU", lambda spec: spec.flavor.vcpus),
    "ExactDiskFilter": exactly("DISK_GB", wanted_disk, 1024),
    "ExactRamFilter": exactly("MEMORY_MB", lambda spec: spec.flavor.memory_mib),
    "JsonFilter": query,
    "MetricsFilter": lambda host, *_: {"cpu.percent", "power"} <= set(host.metrics),
    "RamFilter": lambda host, _, spec: ram(host, [], spec),
    "RetryFilter": lambda host, _, spec: (host.host, host.node or host.host) not in spec.tried,
    "TypeAffinityFilter": one_flavor,
    "AggregateImagePropertiesIsolation": image_isolation,
    "AggregateInstanceExtraSpecsFilter": extra_specs,
    "AggregateIoOpsFilter": lambda host, aggs, _: host.num_io_ops < limit("max_io_ops_per_host", aggs, 5),
    "AggregateMultiTenancyIsolation": tenants,
    "AggregateNumInstancesFilter": lambda host, aggs, _: host.num_instances < limit("max_instances_per_host", aggs, 30),
    "AggregateTypeAffinityFilter": type_affinity,
    "AllHostsFilter": lambda *_: True,
    "ComputeCapabilitiesFilter": capabilities,
    "ComputeFilter": compute,
    "DifferentHostFilter": different,
    "ImagePropertiesFilter": image_properties,
    "IoOpsFilter": lambda host, *_: host.num_io_ops < 5,
    "IsolatedHostsFilter": isolated,
    "NUMATopologyFilter": lambda host, _, spec: fits_cells(host.devices, ratios(host), spec),
    "NumInstancesFilter": lambda host, *_: host.num_instances < 30,
    "PciPassthroughFilter": lambda host, _, spec: has_devices(host.devices, spec),
    "SameHostFilter": same,
    "ServerGroupAffinityFilter": together,
    "ServerGroupAntiAffinityFilter": apart,
    "SimpleCIDRAffinityFilter": near,
}


def test_every_filter_has_a_definition() -> None:
    assert set(DEFINITIONS) == set(FILTERS)


@pytest.mark.parametrize("name", FILTERS)
def test_ten_thousand_hosts_and_requests(name: str) -> None:
    """Each filter equals its definition for every pair, and both passes and rejects some pairs."""
    rng, said = Random(name), set[bool]()
    for _ in range(40):
        cloud = random_cloud(rng)
        hosts = cloud.table()
        aggregates = [cloud.aggregates_of(host.host) for host in cloud.records]
        for _ in range(5):
            spec = random_request(rng)
            passed = RULES[name].passes(hosts, spec).tolist()
            each = zip(cloud.records, aggregates, strict=True)
            assert passed == [DEFINITIONS[name](host, listed, spec) for host, listed in each]
            said.update(passed)
    assert said == {True, False} or name == "AllHostsFilter"


@settings(max_examples=100, deadline=None)
@given(cloud=clouds(), spec=requests)
def test_each_filter_equals_its_definition_for_one_host(cloud: Cloud, spec: RequestSpec) -> None:
    hosts = cloud.table()
    for name, rule in RULES.items():
        expected = [DEFINITIONS[name](host, cloud.aggregates_of(host.host), spec) for host in cloud.records]
        assert rule.passes(hosts, spec).tolist() == expected, name
        assert rule.passes(hosts, spec).tolist() == expected, f"{name} on the second call, from the memo"


@settings(deadline=None, max_examples=50)
@given(cloud=clouds(), spec=requests)
def test_a_filters_answer_for_a_host_ignores_all_other_hosts(cloud: Cloud, spec: RequestSpec) -> None:
    hosts = cloud.table()
    alone = [Cloud((host,), cloud.aggregates).table() for host in cloud.records]
    for name, rule in RULES.items():
        assert rule.passes(hosts, spec).tolist() == [bool(rule.passes(one, spec)[0]) for one in alone], name


@settings(deadline=None, max_examples=50)
@given(cloud=clouds(), spec=requests, data=st.data())
def test_permuting_hosts_permutes_every_mask(cloud: Cloud, spec: RequestSpec, data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(len(cloud.records))))
    hosts = cloud.table()
    shuffled = Cloud(tuple(cloud.records[row] for row in order), cloud.aggregates).table()
    for name, rule in RULES.items():
        passed = rule.passes(hosts, spec).tolist()
        assert rule.passes(shuffled, spec).tolist() == [passed[row] for row in order], name


@settings(deadline=None, max_examples=50)
@given(cloud=clouds(), spec=requests)
def test_filters_write_to_nothing(cloud: Cloud, spec: RequestSpec) -> None:
    hosts = cloud.table()
    for field in hosts.__slots__:
        column = getattr(hosts, field)
        if isinstance(column, np.ndarray):
            column.setflags(write=False)
    for rule in RULES.values():
        rule.passes(hosts, spec)
