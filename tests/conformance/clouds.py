# SPDX-License-Identifier: Apache-2.0
"""Tables of the clouds that the suite's files expect; they are built over REST.

The suite's own fixtures write into its own database. These clouds equal them in everything that tests see: names,
trees, amounts, generations, and the environment variables with the uuids. Each inventory is one request, and so are all
traits together and each allocation; each request raises a generation by one, as in the originals.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

SHARES = "MISC_SHARES_VIA_AGGREGATE"
_BANDWIDTH = "NET_BW_EGR_KILOBIT_PER_SEC"
_BANDWIDTH_IN = "NET_BW_IGR_KILOBIT_PER_SEC"

Amount = int | Mapping[str, Any]


@dataclass(frozen=True)
class Node:
    """Resource provider. ``key``: environment variable of its uuid; ``parent``, ``aggregates``: variables too.

    ``inventories``: class → total, or the fields that differ from ``max_unit`` = ``total``. ``allocations``: one
    consumer each: (variable of the consumer, variable of the user) → class → amount.
    """

    key: str
    name: str
    parent: str | None = None
    aggregates: tuple[str, ...] = ()
    inventories: Mapping[str, Amount] = field(default_factory=dict)
    traits: tuple[str, ...] = ()
    allocations: Mapping[tuple[str, str], Mapping[str, int]] = field(default_factory=dict)


def _disk(total: int = 2000) -> dict[str, Amount]:
    return {"DISK_GB": {"total": total, "reserved": 100}}


def _shared_storage() -> Iterator[Node]:
    cpu: dict[str, Amount] = {
        "VCPU": {"total": 24, "allocation_ratio": 16.0},
        "MEMORY_MB": {"total": 131072, "allocation_ratio": 1.5},
    }
    here = ("AGG_UUID",)
    yield Node("CN1_UUID", "cn1", None, here, cpu, ("HW_CPU_X86_SSE", "HW_CPU_X86_SSE2"))
    yield Node("CN2_UUID", "cn2", None, here, {**cpu, **_disk()})
    for name in ("ss", "ss2"):
        yield Node(f"{name.upper()}_UUID", name, None, here, _disk(), (SHARES,))
    for place in ("1_1", "1_2", "2_1", "2_2"):
        yield Node(f"NUMA{place}_UUID", f"numa{place}", f"CN{place[0]}_UUID")
        yield Node(f"PF{place}_UUID", f"pf{place}", f"NUMA{place}_UUID", (), {"SRIOV_NET_VF": 8})


def _numa_aggregates() -> Iterator[Node]:
    yield Node("CN1_UUID", "cn1", None, ("AGGA_UUID",))
    yield Node("CN2_UUID", "cn2", None, ("AGGA_UUID", "AGGB_UUID"))
    yield Node("SS1_UUID", "ss1", None, ("AGGA_UUID",), _disk(), (SHARES,))
    yield Node("SS2_UUID", "ss2", None, ("AGGC_UUID",), _disk(), (SHARES,))
    for place in ("1_1", "1_2", "2_1", "2_2"):
        joined = ("AGGC_UUID",) if place == "1_1" else ()
        cpu = {"VCPU": {"total": 24, "allocation_ratio": 16.0}}
        yield Node(f"NUMA{place}_UUID", f"numa{place}", f"CN{place[0]}_UUID", joined, cpu)


def _numa_network(*, deep: bool = False) -> Iterator[Node]:
    above: dict[str, str | None] = {"cn1": None, "cn2": None}
    if deep:
        yield Node("GP1_UUID", "gp1")
        for name, parent in (("cn1", "p1"), ("cn2", "p2")):
            yield Node(f"{parent.upper()}_UUID", parent, "GP1_UUID")
            above[name] = f"{parent.upper()}_UUID"
    here, user = ("AGGA_UUID",), "USER_ID"
    yield Node("CN1_UUID", "cn1", above["cn1"], here, {}, ("COMPUTE_VOLUME_MULTI_ATTACH",))
    yield Node("SS1_UUID", "ss1", None, here, {"DISK_GB": 2000}, (SHARES,))
    small: Amount = {"total": 2048, "min_unit": 512, "step_size": 256}
    numa0 = {("CONSUMER_NUMA", user): {"VCPU": 2}}
    yield Node("NUMA0_UUID", "numa0", "CN1_UUID", (), {"VCPU": 4, "MEMORY_MB": small}, ("HW_NUMA_ROOT",), numa0)
    large: Amount = {"total": 2048, "min_unit": 256, "max_unit": 1024}
    custom = ("HW_NUMA_ROOT", "CUSTOM_FOO")
    yield Node("NUMA1_UUID", "numa1", "CN1_UUID", (), {"VCPU": 4, "MEMORY_MB": large}, custom)
    yield Node("FPGA0_UUID", "fpga0", "NUMA0_UUID", (), {"FPGA": 1})
    yield Node("PGPU0_UUID", "pgpu0", "NUMA0_UUID", (), {"VGPU": 8})
    for name in ("fpga1_0", "fpga1_1"):
        yield Node(f"{name.upper()}_UUID", name, "NUMA1_UUID", (), {"FPGA": 1})
    yield Node("SRIOV_AGENT_UUID", "sriov_agent", "CN1_UUID", (), {}, ("CUSTOM_VNIC_TYPE_DIRECT",))
    for number in (1, 2):
        card = {_BANDWIDTH: number * 10000}
        yield Node(f"ESN{number}_UUID", f"esn{number}", "SRIOV_AGENT_UUID", (), card, (f"CUSTOM_PHYSNET{number}",))
    yield Node("OVS_AGENT_UUID", "ovs_agent", "CN1_UUID", (), {}, ("CUSTOM_VNIC_TYPE_NORMAL",))
    yield Node("BR_INT_UUID", "br_int", "OVS_AGENT_UUID", (), {_BANDWIDTH: 1000}, ("CUSTOM_PHYSNET0",))
    plain: dict[str, Amount] = {
        "VCPU": 8,
        "MEMORY_MB": {"total": 2048, "min_unit": 1024, "step_size": 128},
        "DISK_GB": 1000,
    }
    used = {("CONSUMER_CN2", user): {"VCPU": 3}}
    yield Node("CN2_UUID", "cn2", above["cn2"], here, plain, ("CUSTOM_FOO",), used)
    for card_number, functions, networks in ((1, 4, (1, 2)), (2, 2, (1, 2, 1, 2)), (3, 8, (1,))):
        nic = f"NIC{card_number}_UUID"
        yield Node(nic, f"nic{card_number}", "CN2_UUID", (), {}, ("CUSTOM_HW_NIC_ROOT",))
        for port, network in enumerate(networks, 1):
            name, there = f"pf{card_number}_{port}", (f"CUSTOM_PHYSNET{network}",)
            yield Node(f"{name.upper()}_UUID", name, nic, (), {"CUSTOM_VF": functions}, there)


def _granular() -> Iterator[Node]:
    avx = ("HW_CPU_X86_AVX", "HW_CPU_X86_AVX2")
    base = {"VCPU": 8, "MEMORY_MB": 4096}
    net = {"SRIOV_NET_VF": 8, "CUSTOM_NET_MBPS": 4000}
    left = (*avx, "HW_GPU_API_DXVA", "HW_NIC_DCB_PFC", "CUSTOM_FOO")
    middle = (*avx, "HW_CPU_X86_SSE", "HW_NIC_ACCEL_TLS")
    right = ("HW_CPU_X86_MMX", "HW_GPU_API_DXVA", "CUSTOM_DISK_SSD")
    gpu: Amount = {"total": 8, "max_unit": 2}
    yield Node("CN_LEFT", "cn_left", None, ("AGGA",), {**base, "DISK_GB": 500, "VGPU": 8, **net}, left)
    yield Node("CN_MIDDLE", "cn_middle", None, ("AGGA", "AGGB"), {**base, **net}, middle)
    yield Node("CN_RIGHT", "cn_right", None, ("AGGB", "AGGC"), {**base, "DISK_GB": 500, "VGPU": gpu}, right)
    disk = {"DISK_GB": 1000}
    yield Node("SHR_DISK_1", "shr_disk_1", None, ("AGGA",), disk, (SHARES, "CUSTOM_DISK_SSD"))
    yield Node("SHR_DISK_2", "shr_disk_2", None, ("AGGA", "AGGB"), disk, (SHARES,))
    shared = {"SRIOV_NET_VF": 16, "CUSTOM_NET_MBPS": 40000}
    yield Node("SHR_NET", "shr_net", None, ("AGGC",), shared, (SHARES,))


def _neutron_segments() -> Iterator[Node]:
    normal = "CUSTOM_VNIC_TYPE_NORMAL"
    direct = tuple(f"CUSTOM_VNIC_TYPE_{kind}" for kind in ("DIRECT", "DIRECT_PHYSICAL", "MACVTAP"))
    first, second = "CUSTOM_PHYSNET_MSN_S1", "CUSTOM_PHYSNET_MSN_S2"
    for number, bridge, card, networks in (
        (0, 5000, 10000, ("CUSTOM_PHYSNET_OTHER",)),
        (1, 5000, 10000, (first,)),
        (2, 5000, 10000, (second,)),
        (3, 1000, 1000, (first, second)),
    ):
        host = f"compute{number}"
        ovs, sriov = f"{host}:ovs_agent", f"{host}:sriov_agent"
        yield Node(host, host, None, (), {"VCPU": 8, "MEMORY_MB": 4096, "DISK_GB": 500})
        packets = {"NET_PACKET_RATE_KILOPACKET_PER_SEC": 1000}
        yield Node(ovs, f"{host}:Open vSwitch agent", host, (), packets, (normal,))
        yield Node(sriov, f"{host}:NIC Switch agent", host, (), {}, direct)
        for index, network in enumerate(networks):
            suffix = str(index + 1) if index else ""
            width = {_BANDWIDTH: bridge, _BANDWIDTH_IN: bridge}
            name = f"{host}:Open vSwitch agent:br-ex{suffix}"
            yield Node(f"{host}:br_ex{suffix}", name, ovs, (), width, (normal, network))
            width = {_BANDWIDTH: card, _BANDWIDTH_IN: card}
            name = f"{host}:NIC Switch agent:enp129s0f{index}"
            yield Node(f"{host}:pf{index}", name, sriov, (), width, (*direct, network))


_ALLOCATED = Node(
    "RP_UUID",
    "",  # value of RP_NAME
    inventories={"DISK_GB": {"total": 2048, "step_size": 10, "min_unit": 10, "max_unit": 1000}, "VCPU": 10},
    allocations={
        ("CONSUMER_0", "USER_ID"): {"DISK_GB": 1000},
        ("CONSUMER_ID", "USER_ID"): {"VCPU": 6},
        ("ALT_CONSUMER_ID", "ALT_USER_ID"): {"DISK_GB": 20, "VCPU": 1},
    },
)
_PLAIN = {"VCPU": 24, "MEMORY_MB": 131072, "DISK_GB": 2000}

#: Name of a fixture in the suite → the providers that it creates in the empty cloud.
CLOUDS: Mapping[str, tuple[Node, ...]] = {
    "APIFixture": (),
    "CORSFixture": (),
    "OpenPolicyFixture": (),
    "SecureRBACPolicyFixture": (),
    "LegacyRBACPolicyFixture": (),
    "AllocationFixture": (_ALLOCATED,),
    "SharedStorageFixture": tuple(_shared_storage()),
    "NUMAAggregateFixture": tuple(_numa_aggregates()),
    "NUMANetworkFixture": tuple(_numa_network()),
    "DeepNUMANetworkFixture": tuple(_numa_network(deep=True)),
    "NonSharedStorageFixture": tuple(Node(f"CN{i}_UUID", f"cn{i}", inventories=_PLAIN) for i in (1, 2, 3)),
    "GranularFixture": tuple(_granular()),
    "NeutronQoSMultiSegmentFixture": tuple(_neutron_segments()),
}

_FRESH = (
    "RP_UUID", "RP_NAME", "RP_UUID1", "RP_NAME1", "RP_UUID2", "RP_NAME2", "ALT_RP_UUID", "ALT_RP_NAME", "PROJECT_ID",
    "ADMIN_PROJECT_ID", "SERVICE_PROJECT_ID", "PROJECT_ID_ALT", "USER_ID", "USER_ID_ALT", "ALT_USER_ID",
    "INSTANCE_UUID", "MIGRATION_UUID", "CONSUMER_UUID", "PARENT_PROVIDER_UUID", "ALT_PARENT_PROVIDER_UUID",
    "AGG_UUID", "AGGA_UUID", "AGGB_UUID", "AGGC_UUID", "AGGA", "AGGB", "AGGC",
)  # fmt: skip


def variables() -> Iterator[str]:
    """Yield every environment variable that needs a new uuid; some occur more than once."""
    nodes = list(chain.from_iterable(CLOUDS.values()))
    consumers = (key for node in nodes for consumer in node.allocations for key in consumer)
    return chain(_FRESH, (node.key for node in nodes), consumers)
