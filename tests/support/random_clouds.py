# SPDX-License-Identifier: Apache-2.0
"""Random clouds and requests from small vocabularies, so that rules often match.

Imports nothing but Kilonova's scheduler, so that it also runs in Nova's environment. Equal seeds give equal clouds.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import Any

from kilonova.model.aggregate import Aggregate
from kilonova.model.flavor import Flavor
from kilonova.model.host import Capabilities
from kilonova.model.image import Image
from kilonova.model.provider import Inventory
from kilonova.model.request_spec import RequestSpec
from kilonova.model.server_group import POLICIES, GroupView
from kilonova.scheduler.guests import guest_kind
from kilonova.scheduler.host_records import HostRecord, build_host_table
from kilonova.scheduler.host_table import HostTable
from support.device_clouds import some_host

NAMES = tuple(f"node{number}" for number in range(8))
PROJECTS = ("p", "q", "r")
INSTANCES = tuple(f"i{number}" for number in range(6))
NOW = 1_000_000.0
TRIPLES = (("x86_64", "kvm", "hvm"), ("x86_64", "qemu", "hvm"), ("aarch64", "kvm", "hvm"), ("i686", "xen", "xen"))
WORDS = ("a", "5", "")
REQUIREMENTS = (
    *WORDS,
    "<in> a",
    "<or> a <or> b",
    "<all-in> a b",
    ">= 5",
    "!= 5",
    "<= 8",
    "s< b",
    "<or>",
    ">= x",
    *(" >= 5", ">=5", ">=  5 6", "\t= 5", "== 5e0", "== +5", "<= 1_0", "!= nan", "<= inf", "= 0x5"),
    *("<or>a<or>b", "<or> b a", "<or> <or>", "<in>", "<in> a b", "<all-in>", "s== a b", "s== A", "s>= ", "=", "> 4"),
)
_VALUES = (*WORDS, "a,b", "a b", " b , 9", "A", ",a", "a,,b", ",", " a ", "5.0", "+5", "05")
_TENANTS = (*PROJECTS, "p,q", "p, r", "", ",", ",p", "P", " p ")
_RATIOS = ("0.5", "1.5", "16", "many", "1,2")
_LIMITS = ("20", "3", "2,3", "many", "0", "-1", "+3", " 3 ", "1_0", "3.0", "3e0", "", "99999999999999999999")
_MULTIPLIERS = ("2", "-1", "0.5", "0", "-0.0", "many", "", " 2 ", "+2", "1e3", "1_0", "0x1", "nan", "inf", "-inf")
METADATA = {
    "ssd": _VALUES,
    "k": _VALUES,
    "os_distro": _VALUES,
    "filter_tenant_id": _TENANTS,
    "filter_tenant_id2": _TENANTS,
    "instance_type": ("m1", "m2", "m1, m2", "", "M1", "m1,", " m1 "),
    "max_io_ops_per_host": _LIMITS,
    "max_instances_per_host": _LIMITS,
    "availability_zone": ("a", "b", "a,b", "", "A", " a"),
    "cpu_allocation_ratio": _RATIOS,
    "ram_allocation_ratio": _RATIOS,
    "disk_allocation_ratio": _RATIOS,
    **{
        f"{name}_weight_multiplier": _MULTIPLIERS
        for name in (
            *("ram", "cpu", "disk", "io_ops", "num_instances", "hypervisor_version", "pci", "image_props"),
            *("build_failure", "metrics", "soft_affinity", "soft_anti_affinity"),
        )
    },
}
#: Addresses that agents report, and hints and extra specs name, in several spellings.
ADDRESSES = (
    *("10.0.0.1", "10.0.0.1", "10.0.1.1", "192.168.0.1", "192.168.0.95", "fd00::1", "fd00:0:1::1"),
    *("2001:db8::0:91", "2001:DB8::91", "2001:db8::91", "2001:0db8:0:0:0:0:0:91"),
    *("::ffff:10.0.0.1", "::ffff:a00:1", "::10.0.0.1", "fd00:0:0:1:0:0:0:1"),
)
ADDRESSES_ASKED = (*ADDRESSES, "<in> :", "<in> db8::91", "s> 2", "s== fd00::1", "== 10", "<or> fd00::1 <or> 10.0.0.1")
EXTRA_SPECS = {
    "aggregate_instance_extra_specs:ssd": REQUIREMENTS,
    "ssd": REQUIREMENTS,
    "k": REQUIREMENTS,
    "capabilities:gpu": REQUIREMENTS,
    "gpu": REQUIREMENTS,
    "capabilities:cpu_info:features": REQUIREMENTS,
    "capabilities:cpu_info:cores": REQUIREMENTS,
    "hypervisor_type": ("QEMU", *REQUIREMENTS),
    "capabilities:num_instances": (">= 5", "<= 8", "<or> 1 <or> 2", "5"),
    "free_ram_mb": (">= 2000", "<= 2000", "s< 3"),
    "capabilities:vcpus_used": (">= 5", "<= 8", "<in> 1"),
    "capabilities:unknown": REQUIREMENTS,
    "capabilities:io_workload": ("<= 5", ">= 3", "= 4", "s< 4", "5", "<or> 3 <or> 4", "+1"),
    "io_workload": ("<= 5", "!= 3"),
    "capabilities:stats:io_workload": ("<= 5",),
    "capabilities:hypervisor_version": (">= 6002000", "== 7000001.0", "<= +7000001", "6002000", "<in> 00"),
    "capabilities:cpu_allocation_ratio": ("== 16", "<= 1.5", "16.0"),
    "capabilities:failed_builds": ("<= 1", "0"),
    "capabilities:host_ip": ADDRESSES_ASKED,
    "host_ip": ADDRESSES_ASKED,
    "capabilities:host_ip:version": ("4",),
    "capabilities:host": ("s<= node2", "<or> node1 <or> node3", "== 1"),
    "capabilities:cpu_info:maxphysaddr:bits": (">= 40", "46"),
    "hw:maxphysaddr_bits": ("40", "+46", "50"),
    "hw:cpu_policy": ("dedicated",),
    "hw:numa_nodes": ("2",),
    "pci_passthrough:alias": ("gpu:1", "nic:1,gpu:2", "unknown:1"),
    "trait:CUSTOM_A": ("required", "forbidden"),
}
PROPERTIES = {
    "os_distro": _VALUES,
    "k": _VALUES,
    "hw_architecture": ("x86_64", "amd64", "aarch64", "a"),
    "img_hv_type": ("kvm", "qemu", "xen"),
    "hw_vm_mode": ("hvm", "xen"),
    "img_hv_requested_version": (">=7.0", "<7.0,>=6.2", "seven"),
    "hw_maxphysaddr_bits": ("40", "50", "many"),
}

IMAGE_PROPERTIES_OF_GUESTS = ({}, {"os_distro": "a"}, {"os_distro": "5", "k": "a"}, {"architecture": "x86_64"})
METRICS = {"cpu.percent": (0.0, 0.25, 1.0), "power": (50.0, 120.5)}
CELLS = ("c1", "c2")
DEVICES = tuple(some_host(Random(seed)) for seed in range(12))
ATTRIBUTES = {
    "$free_ram_mb": (0, 2000, 2048.5),
    "$vcpus_used": (0, 5, 8),
    "$num_instances": (5, "5", 20),
    "$stats.gpu": ("5", "a", 5),
    "$stats.io_workload": (3, 5),
    "$hypervisor_type": ("QEMU", "a"),
    "$hypervisor_version": (0, 6002000),
    "$host": ("node1", "node2", "NODE1"),
    "$host_ip": ("10.0.0.1", "2001:db8::91"),
    "$nope": (1,),
    "$stats.nope": ("a",),
    "$vcpus_used.a": (1,),
}
QUERIES = (
    "",
    "[]",
    "{}",
    "0",
    "5",
    "no json",
    '"text"',
    '["like", "$host", "node1"]',
    '["="]',
    '["and"]',
    '["or"]',
    '["not"]',
    '["in", "$host", ["node1", "node2"]]',
    '["=", {"a": 1}, 1]',
    '{"=": ["$host", "node1"]}',
    '["=", "$host", ""]',
    '["=", null, 1, 1]',
)
CPUS: tuple[dict[str, Any], ...] = (
    {},
    {"features": ["a", "b"], "cores": 8},
    {"maxphysaddr": {"bits": 46}},
    {"features": ["ab"], "cores": 5},
)
EXTRAS: tuple[dict[str, str], ...] = ({}, {"gpu": "5"}, {"gpu": "a"}, {"k": "true"})
LAST_SEEN = (NOW, NOW - 5, NOW - 60, NOW - 60.5, NOW + 61)
FLAVORS = ("1", "2", "3")
CIDRS = (
    "/24",
    "/16",
    "/0",
    "/48",
    "/128",
    "/ffff:ffff:ffff::",
    "/ffff::ff",
    "/255.255.0.0",
    "/0.0.0.255",
    "/",
    "",
    "/99",
    *("/ffff::", "/::", "/abc", "/::ffff", "/ffff:0:0:0:0:0:0:0", "/ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
    *("/0.0.0.0", "/255.255.255.255", "/255.0.255.0", "/255.255", "/256.0.0.0", "/24.0", "/.", "/:"),
    *("/08", "/+8", "/ 8", "/8 ", "/1_6", "/-1", "/129", "/0x10", "/a", "24", "//24", "/24/24"),
)
NEAR = (
    *("10.0.0.9", "10.0.0.9", "10.0.0.1", "fd00::9", "192.168.0.95", "", "node1"),
    *("2001:db8:0:0::90", "2001:DB8::90", "fd00:0::9", "::ffff:10.0.0.9", "::10.0.0.9", "fd00::9%eth0"),
    *("10.0.0", "010.0.0.9", "10.0.0.9 ", "0x0a000009", "10.0.0.9/8"),
)


@dataclass(frozen=True)
class Cloud:
    """Hosts and aggregates from which a host table is built, in any order."""

    records: tuple[HostRecord, ...]
    aggregates: tuple[Aggregate, ...]

    def table(self) -> HostTable:
        return build_host_table(self.records, self.aggregates, taken_at=NOW)

    def aggregates_of(self, host: str) -> list[Aggregate]:
        return self._aggregates_by_host.get(host, [])

    @cached_property
    def _aggregates_by_host(self) -> Mapping[str, list[Aggregate]]:
        found: dict[str, list[Aggregate]] = {}
        for aggregate in self.aggregates:
            for host in aggregate.hosts:
                found.setdefault(host, []).append(aggregate)
        return found


def random_query(rng: Random, depth: int = 2) -> list[Any]:
    """Return a query expression that a host may or may not satisfy."""
    name = rng.choice(("and", "or", "not") if depth and rng.random() < 0.6 else ("=", "<", ">", "<=", ">=", "in"))
    if name in {"and", "or", "not"}:
        return [name, *(random_query(rng, depth - 1) for _ in range(rng.choice((0, 1, 1, 2, 2, 2, 3))))]
    attribute = rng.choice(tuple(ATTRIBUTES))
    constants = [rng.choice(ATTRIBUTES[attribute]) for _ in range(rng.choice((0, 1, 1, 1, 1, 2)))]
    return [name, *([attribute, *constants] if rng.random() < 0.9 else [*constants, attribute])]


def random_hint(rng: Random) -> str:
    """Return the text of a ``query`` scheduler hint, sometimes an invalid one."""
    return rng.choice(QUERIES) if rng.random() < 0.2 else json.dumps(random_query(rng))


def _some_of(rng: Random, vocabulary: Mapping[str, tuple[str, ...]], most: int) -> dict[str, str]:
    keys = rng.sample(tuple(vocabulary), rng.randint(0, most))
    if rng.random() < 0.3:
        keys.append(next(iter(vocabulary)))
    return {key: rng.choice(vocabulary[key]) for key in keys}


def inventories(size: int, ratio: float, reserved: int, step: int) -> tuple[Inventory, ...]:
    return (
        Inventory("VCPU", 4 * size, reserved=min(reserved // 256, 2 * size), allocation_ratio=ratio, max_unit=4 * size),
        Inventory("MEMORY_MB", 2_048 * size, reserved=reserved),
        *((Inventory("DISK_GB", 50 * size, step_size=step),) if size != 2 else ()),
    )


def random_host(rng: Random, name: str, instances: Sequence[str], cell: str, metered: float) -> HostRecord:
    return HostRecord(
        host=name,
        inventories=inventories(
            rng.randint(1, 4), rng.choice((1.0, 1.5, 16.0)), rng.choice((0, 512)), rng.choice((1, 1, 5))
        ),
        used={"VCPU": rng.randint(0, 12), "MEMORY_MB": rng.choice((0, 1024, 2048, rng.randint(0, 3_000)))},
        traits=frozenset(rng.choice(((), (), (), ("CUSTOM_A",), ("COMPUTE_STATUS_DISABLED",)))),
        capabilities=Capabilities(
            hypervisor_type=rng.choice(("QEMU", "a", "5")),
            hypervisor_version=rng.choice((0, 6_002_000, 7_000_001)),
            supported_instances=tuple(rng.sample(TRIPLES, rng.randint(0, 3))),
            cpu_info=rng.choice(CPUS),
            extra=rng.choice(EXTRAS),
        ),
        disabled=rng.random() < 0.1,
        forced_down=rng.random() < 0.1,
        last_seen=rng.choice(LAST_SEEN),
        num_instances=rng.randint(0, 40),
        num_io_ops=rng.randint(0, 8),
        failed_builds=rng.randint(0, 3),
        devices=rng.choice(DEVICES),
        instances=tuple(instances),
        guests=tuple(
            guest_kind(rng.choice(FLAVORS), rng.choice(IMAGE_PROPERTIES_OF_GUESTS))
            for _ in range(rng.choice((0, 0, 1, 1, 2, 4)))
        ),
        metrics={name: rng.choice(values) for name, values in METRICS.items() if rng.random() < metered}
        | kept_images(name),
        cell_uuid=cell,
        host_ip=rng.choice(ADDRESSES),
    )


def kept_images(host: str) -> dict[str, float]:
    """Return the cached images that a host reports."""
    number = sum(host.encode())
    return {f"image.{image}": 1.0 for image, every in (("open", 3), ("secret", 4)) if number % every == 0}


def random_cloud(rng: Random, size: int = 50) -> Cloud:
    """Return ``size`` hosts in random aggregates."""
    names = tuple(f"node{number}" for number in range(size))
    homes = {uuid: rng.choice((*names, "")) for uuid in INSTANCES}
    metered = rng.choice((0.7, 0.9, 1.0))
    cells = rng.choice(((CELLS[0],), CELLS, ("",)))
    hosts = [
        random_host(rng, name, [uuid for uuid, home in homes.items() if home == name], rng.choice(cells), metered)
        for name in names
    ]
    aggregates = [
        Aggregate(
            number,
            f"u{number}",
            f"aggregate{number}",
            tuple(name for name in names if rng.random() < 0.4),
            _some_of(rng, METADATA, 4),
        )
        for number in range(rng.randint(0, 6))
    ]
    return Cloud(tuple(hosts), tuple(aggregates))


def random_request(rng: Random) -> RequestSpec:
    hints: dict[str, tuple[str, ...]] = {}
    for name in ("different_host", "same_host"):
        if rng.random() < 0.3:
            hints[name] = tuple(rng.sample((*INSTANCES, "unknown", ""), rng.randint(1, 3)))
            hints[name] = ("",) if rng.random() < 0.1 else hints[name]
    if rng.random() < 0.3:
        hints["build_near_host_ip"] = (rng.choice(NEAR),)
    if rng.random() < 0.5:
        hints["cidr"] = (rng.choice(CIDRS),)
    if rng.random() < 0.5:
        hints["query"] = (random_hint(rng),)
    image = Image(rng.choice(("open", "secret")), properties=_some_of(rng, PROPERTIES, 3))
    group = GroupView(
        "group",
        rng.choice((*POLICIES, "anti-affinity")),
        rng.randint(1, 3),
        {name: rng.randint(0, 3) for name in rng.sample(NAMES, rng.randint(1, 4))},
    )
    return RequestSpec(
        flavor=Flavor(
            flavor_id=rng.choice(FLAVORS),
            name=rng.choice(("m1", "m2", "m3")),
            vcpus=rng.randint(1, 6),
            memory_mib=rng.choice((rng.randint(1, 2_048), 1024, 1536)),
            root_gib=rng.choice((0, 5, 7, 50)),
            ephemeral_gib=rng.choice((0, 0, 43)),
            swap_mib=rng.choice((0, 0, 512)),
            extra_specs=_some_of(rng, EXTRA_SPECS, 2) if rng.random() < 0.7 else {},
        ),
        image=image if rng.random() < 0.8 else None,
        project_id=rng.choice(PROJECTS),
        instance_uuids=tuple(rng.sample((*INSTANCES, "unknown"), rng.randint(0, 3))),
        availability_zone=rng.choice((None, None, "a", "b", "nova")),
        hints=hints,
        group=group if rng.random() < 0.7 else None,
        tried=tuple((name, name) for name in rng.sample(NAMES, rng.choice((0, 0, 1, 2)))),
        source_cell=rng.choice((None, *CELLS)),
    )
