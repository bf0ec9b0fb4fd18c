# SPDX-License-Identifier: Apache-2.0
"""Random clusters and requests from small vocabularies, so that rules meet what they look for."""

from dataclasses import dataclass, replace

from hypothesis import strategies as st

from kilonova.model.aggregate import Aggregate
from kilonova.model.flavor import Flavor
from kilonova.model.host import NODE_TRAITS, Capabilities
from kilonova.model.image import Image
from kilonova.model.provider import Inventory
from kilonova.model.request_spec import RequestSpec
from kilonova.model.server_group import POLICIES, GroupView
from kilonova.scheduler.host_table import HostRecord, HostTable, build_host_table

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
)
_VALUES = (*WORDS, "a,b", "a b", " b , 9")
_TENANTS = (*PROJECTS, "p,q", "p, r")
_LIMITS = ("20", "3", "2,3", "many")
METADATA = {
    "ssd": _VALUES,
    "k": _VALUES,
    "os_distro": _VALUES,
    "filter_tenant_id": _TENANTS,
    "filter_tenant_id2": _TENANTS,
    "instance_type": ("m1", "m2", "m1, m2"),
    "max_io_ops_per_host": _LIMITS,
    "max_instances_per_host": _LIMITS,
    "availability_zone": ("a", "b"),
    "ram_weight_multiplier": ("2", "-1", "0.5", "many"),
    "build_failure_weight_multiplier": ("2", "-1", "0"),
}
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
    "hw:cpu_policy": ("dedicated",),
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


def _some(vocabulary: dict[str, tuple[str, ...]], most: int) -> st.SearchStrategy[dict[str, str]]:
    """Return some keys, each with one of its own values; the first keys turn up more often."""
    pairs = [(key, value) for key, values in vocabulary.items() for value in values]
    first = [(key, value) for key in list(vocabulary)[:2] for value in vocabulary[key]]
    return st.lists(st.sampled_from([*pairs, *first, *first]), max_size=most).map(dict)


@dataclass(frozen=True)
class Cloud:
    """Hosts and aggregates from which a table is built, in any order."""

    records: tuple[HostRecord, ...]
    aggregates: tuple[Aggregate, ...]

    def table(self) -> HostTable:
        return build_host_table(self.records, self.aggregates, taken_at=NOW)

    def aggregates_of(self, host: str) -> list[Aggregate]:
        return [aggregate for aggregate in self.aggregates if host in aggregate.hosts]


capabilities = st.builds(
    Capabilities,
    hypervisor_type=st.sampled_from(("QEMU", "a", "5")),
    hypervisor_version=st.sampled_from((0, 6_002_000, 7_000_001)),
    supported_instances=st.lists(st.sampled_from(TRIPLES), max_size=3, unique=True).map(tuple),
    cpu_info=st.sampled_from(
        ({}, {"features": ["a", "b"], "cores": 8}, {"maxphysaddr": {"bits": 46}}, {"features": ["ab"], "cores": 5})
    ),
    extra=st.sampled_from(({}, {"gpu": "5"}, {"gpu": "a"}, {"k": "true"})),
)


def _inventories(size: int, ratio: float, reserved: int, step: int) -> tuple[Inventory, ...]:
    return (
        Inventory("VCPU", 4 * size, allocation_ratio=ratio, max_unit=4 * size),
        Inventory("MEMORY_MB", 2_048 * size, reserved=reserved),
        *((Inventory("DISK_GB", 50 * size, step_size=step),) if size != 2 else ()),
    )


rarely = st.integers(0, 7).map(lambda number: number == 7)


def records(name: str) -> st.SearchStrategy[HostRecord]:
    return st.builds(
        HostRecord,
        host=st.just(name),
        inventories=st.builds(
            _inventories,
            st.integers(1, 4),
            st.sampled_from((1.0, 1.5, 16.0)),
            st.sampled_from((0, 512)),
            st.sampled_from((1, 1, 5)),
        ),
        used=st.fixed_dictionaries({"VCPU": st.integers(0, 12), "MEMORY_MB": st.integers(0, 3_000)}),
        traits=st.sampled_from(
            [
                frozenset({*NODE_TRAITS, *each})
                for each in ((), (), (), ("CUSTOM_A",), ("COMPUTE_STATUS_DISABLED",), ("CUSTOM_A", "CUSTOM_B"))
            ]
        ),
        capabilities=capabilities,
        disabled=rarely,
        forced_down=rarely,
        last_seen=st.sampled_from((NOW, NOW - 5, NOW - 60, NOW - 60.5, NOW + 61)),
        num_instances=st.integers(0, 40),
        num_io_ops=st.integers(0, 8),
        failed_builds=st.integers(0, 3),
        host_ip=st.sampled_from(("10.0.0.1", "10.0.1.1", "192.168.0.1")),
    )


@st.composite
def clouds(draw: st.DrawFn) -> Cloud:
    names = NAMES[: draw(st.integers(1, len(NAMES)))]
    homes = draw(st.lists(st.integers(0, len(NAMES)), min_size=len(INSTANCES), max_size=len(INSTANCES)))
    hosts = [
        replace(
            draw(records(name)),
            instances=tuple(uuid for uuid, home in zip(INSTANCES, homes, strict=True) if home == row),
        )
        for row, name in enumerate(names)
    ]
    aggregates = [
        Aggregate(
            number,
            f"u{number}",
            f"aggregate{number}",
            tuple(name for bit, name in enumerate(NAMES) if members >> bit & 1),
            draw(_some(METADATA, 4)),
        )
        for number, members in enumerate(draw(st.lists(st.integers(0, 2 ** len(NAMES) - 1), max_size=6)))
    ]
    return Cloud(tuple(hosts), tuple(aggregates))


flavors = st.builds(
    Flavor,
    flavor_id=st.just("1"),
    name=st.sampled_from(("m1", "m2", "m3")),
    vcpus=st.integers(1, 6),
    memory_mib=st.integers(1, 2_048),
    root_gib=st.sampled_from((0, 5, 7, 50)),
    extra_specs=st.just({}) | _some(EXTRA_SPECS, 2),
)
images = st.none() | st.builds(Image, id=st.sampled_from(("open", "secret")), properties=_some(PROPERTIES, 3))
groups = st.none() | st.builds(
    GroupView,
    uuid=st.just("group"),
    policy=st.sampled_from((*POLICIES, "anti-affinity")),
    max_server_per_host=st.integers(1, 3),
    hosts=st.dictionaries(st.sampled_from(NAMES[:4]), st.integers(0, 3), min_size=1, max_size=4),
)
_uuids = st.lists(st.sampled_from((*INSTANCES, "unknown")), max_size=3).map(tuple)
requests = st.builds(
    RequestSpec,
    flavor=flavors,
    image=images,
    project_id=st.sampled_from(PROJECTS),
    instance_uuids=_uuids,
    availability_zone=st.sampled_from((None, None, "a", "b", "nova")),
    hints=st.fixed_dictionaries(
        {},
        optional={
            "different_host": _uuids,
            "same_host": _uuids,
            "build_near_host_ip": st.just(("10.0.0.9",)),
            "cidr": st.sampled_from((("/24",), ("/16",), ("/0",))),
        },
    ),
    ignore_hosts=st.sampled_from([frozenset(each) for each in ((), (), ("node1",), ("NODE1", "node2"))]),
    group=groups,
)
