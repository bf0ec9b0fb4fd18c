# SPDX-License-Identifier: Apache-2.0
"""Random clouds with servers for tests of plans: hosts with devices, aggregates, isolation, groups, states of servers.

Servers are placed one after the other as the scheduler would place them. Equal seeds give equal clouds.
"""

from dataclasses import dataclass, field, replace
from random import Random

import msgspec

from kilonova.cli.wiring.rules import build_engine
from kilonova.model.aggregate import Aggregate
from kilonova.model.flavor import Flavor
from kilonova.model.host import NODE_TRAITS, Capabilities
from kilonova.model.host_devices import NOTHING, HostDevices
from kilonova.model.image import Image
from kilonova.model.numa import HostCell
from kilonova.model.pci import PciPool
from kilonova.model.provider import Inventory
from kilonova.model.request_spec import RequestSpec
from kilonova.model.server_group import GroupView
from kilonova.model.server_migration import MoveKind
from kilonova.planning.cloud import Cloud
from kilonova.planning.planned_server import PlannedServer
from kilonova.scheduler.aggregate_index import AggregateIndex
from kilonova.scheduler.devices.choice import first_that_gives, needs_of
from kilonova.scheduler.devices.pci_request import read_aliases
from kilonova.scheduler.engine.engine import Engine
from kilonova.scheduler.guests import guest_of
from kilonova.scheduler.host_records import HostRecord, build_host_table
from kilonova.scheduler.memo import Memo
from kilonova.scheduler.resources import with_resources
from kilonova.scheduler.settings import SchedulerConfig

ALIAS = '{"name": "gpu", "vendor_id": "10de", "product_id": "1db4"}'
ALIASES = read_aliases((ALIAS,))
FILTERS = (
    *SchedulerConfig().enabled_filters,
    *("NUMATopologyFilter", "PciPassthroughFilter", "AggregateInstanceExtraSpecsFilter", "NumInstancesFilter"),
    *("ServerGroupAffinityFilter", "ServerGroupAntiAffinityFilter", "DifferentHostFilter", "SameHostFilter"),
)
POLICIES = ("affinity", "anti-affinity", "anti-affinity", "soft-affinity", "soft-anti-affinity")
NOW = 1_000_000.0
SPECS: tuple[dict[str, str], ...] = (
    {},
    {},
    {},
    {"hw:cpu_policy": "dedicated"},
    {"hw:numa_nodes": "2"},
    {"pci_passthrough:alias": "gpu:1"},
    {"aggregate_instance_extra_specs:ssd": "true"},
)
METADATA = ({"ssd": "true"}, {"kilonova:only": "project=red"}, {"kilonova:only": "flavor=m4"}, {})


def engine_of(chance: Random, *more: str) -> Engine:
    most = chance.choice((6, 8, 12, 50))
    config = SchedulerConfig(
        enabled_filters=tuple(dict.fromkeys((*FILTERS, *more))), max_instances_per_host=most, pci_alias=(ALIAS,)
    )
    return build_engine(config)


@dataclass
class Drawn:
    """The hosts and aggregates of a random cloud, before any server is placed, and its engine."""

    records: tuple[HostRecord, ...]
    aggregates: tuple[Aggregate, ...]
    engine: Engine
    groups: dict[str, GroupView] = field(default_factory=dict)

    def empty(self) -> Cloud:
        table = build_host_table(self.records, self.aggregates, taken_at=NOW)
        return Cloud(table, self.engine, (), self.groups)


def drawn_cloud(chance: Random, hosts: int, engine: Engine | None = None) -> Drawn:
    records = tuple(random_record(chance, f"node{number}") for number in range(hosts))
    aggregates = []
    for number in range(chance.choice((0, 0, 1, 2))):
        names = tuple(record.host for record in records if chance.random() < 0.5)
        zone = {"availability_zone": f"z{number}"} if chance.random() < 0.3 else {}
        aggregates.append(Aggregate(number, f"u{number}", f"a{number}", names, {**chance.choice(METADATA), **zone}))
    groups = {
        f"g{number}": GroupView(f"g{number}", chance.choice(POLICIES), chance.choice((1, 1, 2)))
        for number in range(chance.randint(0, 3))
    }
    return Drawn(records, tuple(aggregates), engine or engine_of(chance), groups)


def random_record(chance: Random, name: str) -> HostRecord:
    size = chance.choice((4, 6, 8))
    ratio = chance.choice((1.0, 1.0, 2.0))
    devices = random_devices(chance, size) if chance.random() < 0.5 else NOTHING
    return HostRecord(
        host=name,
        uuid=f"uuid-{name}",
        inventories=(
            Inventory("VCPU", size, allocation_ratio=ratio),
            Inventory("PCPU", size),
            Inventory("MEMORY_MB", 1024 * size),
            Inventory("DISK_GB", 20 * size),
        ),
        traits=frozenset(NODE_TRAITS),
        capabilities=Capabilities(hypervisor_version=chance.choice((1, 2))),
        last_seen=NOW,
        devices=devices,
    )


def random_devices(chance: Random, size: int) -> HostDevices:
    half = size // 2
    cells = tuple(
        HostCell(
            id=number,
            cpuset=frozenset(range(number * 100, number * 100 + half)),
            pcpuset=frozenset(range(number * 100 + 50, number * 100 + 50 + half)),
            memory_mib=512 * size,
        )
        for number in range(2)
    )
    pools = (PciPool(0, "10de", "1db4", chance.choice((1, 2)), chance.choice((None, 0, 1))),)
    return HostDevices(cells, pools if chance.random() < 0.6 else ())


def random_spec(chance: Random, others: list[str]) -> RequestSpec:
    number, specs = chance.randint(1, 4), chance.choice(SPECS)
    flavor = Flavor(
        f"f{number}",
        f"m{number}",
        2 if "hw:numa_nodes" in specs else chance.choice((1, 1, 2, 2, 3)),
        chance.choice((256, 512, 1024, 2048)),
        chance.choice((1, 5, 10)),
        extra_specs=specs,
    )
    hints: dict[str, tuple[str, ...]] = {}
    if others and chance.random() < 0.1:
        hints[chance.choice(("different_host", "different_host", "same_host"))] = (chance.choice(others),)
    properties = chance.choice(({}, {}, {"os_distro": "debian"}))
    return RequestSpec(
        flavor,
        Image("i", properties=properties),
        project_id=chance.choice(("red", "blue", "blue")),
        hints=hints,
        availability_zone=chance.choice((None, None, None, "z0")),
        volume_backed=chance.random() < 0.2,
    )


def filled(chance: Random, drawn: Drawn, servers: int) -> Cloud:
    """Return the cloud with servers that the scheduler placed; those that do not fit are left out."""
    cloud = drawn.empty()
    placed: list[PlannedServer] = []
    for number in range(servers):
        server = random_server(chance, f"s{number:03}", [each.uuid for each in placed], drawn)
        decision = cloud.decide(server, None)
        best, _ = first_that_gives(decision, cloud.hosts, server.needs)
        if best is None:
            continue
        row = chance.choice(decision.ranked).row if chance.random() < 0.5 else best.row
        if server.needs and server.needs.on(cloud.hosts, row) is None:
            row = best.row
        held = cloud.place(server, row)
        placed.append(msgspec.structs.replace(server, row=row, allocations=held.allocations, share=held.share))
    return Cloud(cloud.hosts, drawn.engine, placed, cloud.groups)


def random_server(chance: Random, uuid: str, others: list[str], drawn: Drawn) -> PlannedServer:
    spec = with_resources(random_spec(chance, others))
    hindrances: dict[MoveKind, str] = {}
    if chance.random() < 0.1:
        hindrances = {MoveKind.LIVE_MIGRATE: "stopped"} | (
            {MoveKind.COLD_MIGRATE: "in a task"} if chance.random() < 0.3 else {}
        )
    return PlannedServer(
        uuid=uuid,
        row=0,
        spec=spec,
        needs=needs_of(spec, ALIASES),
        allocations={},
        guest=guest_of(spec),
        group_uuid=chance.choice(sorted(drawn.groups)) if drawn.groups and chance.random() < 0.4 else None,
        disk_gib=0 if spec.volume_backed else spec.flavor.root_gib,
        memory_gib=spec.flavor.memory_mib / 1024,
        hindrances=hindrances,
    )


def random_cloud(seed: int, *, hosts: tuple[int, int] = (2, 6), servers: tuple[int, int] = (0, 25)) -> Cloud:
    chance = Random(seed)
    drawn = drawn_cloud(chance, chance.randint(*hosts))
    return filled(chance, drawn, chance.randint(*servers))


def with_violations(chance: Random, cloud: Cloud) -> Cloud:
    """Return a cloud whose rules some servers violate: an isolation rule is new, and groups have moved together."""
    hosts = cloud.hosts
    names = tuple(name for name in hosts.hosts if chance.random() < 0.5)
    rule = chance.choice(
        ({"kilonova:only": "project=red"}, {"kilonova:only": "flavor=m2"}, {"availability_zone": "z0"})
    )
    aggregates = (*hosts.aggregates.aggregates, Aggregate(99, "u99", "new", names, rule))
    table = replace(hosts, aggregates=AggregateIndex.of(aggregates, hosts.hosts), memo=Memo())
    groups = {
        uuid: replace(group, policy="anti-affinity") if group.policy == "soft-affinity" else group
        for uuid, group in cloud.groups.items()
    }
    return Cloud(table, cloud.engine, cloud.servers.values(), groups)
