# SPDX-License-Identifier: Apache-2.0
"""Test clouds inserted directly into the tables: many hosts, servers on them, and servers waiting for a host."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from ipaddress import IPv4Address
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import sqlalchemy as sa
from tests.support.database_servers import DatabaseServer, MariaDB, PostgreSQL, running

from kilonova.claims.claimer import Job, Order
from kilonova.claims.placing import Chosen, NextStep
from kilonova.db import host_agents, instances, schema, workflows
from kilonova.db.compute_nodes import capabilities_as_json
from kilonova.db.core import tables as t
from kilonova.db.core.transaction import Transaction
from kilonova.db.database import Database
from kilonova.db.host_agents import Process
from kilonova.db.workflows import WorkflowRow
from kilonova.model.flavor import Flavor
from kilonova.model.host import NODE_TRAITS, Capabilities
from kilonova.model.instance import Instance, PowerState, TaskState, VmState
from kilonova.model.request_spec import RequestSpec

_ROWS = 20_000
FLAVOR = Flavor("1", "m1.small", 1, 2_048, 20)
#: Resource class → total, reserved, allocation ratio.
INVENTORY = {"VCPU": (64, 0, 4.0), "MEMORY_MB": (262_144, 4_096, 1.0), "DISK_GB": (4_000, 0, 1.0)}
_USED_BY_ONE = {"VCPU": 1, "MEMORY_MB": 2_048, "DISK_GB": 20}
CAPABILITIES = Capabilities(
    hypervisor_type="QEMU",
    hypervisor_version=8_000_000,
    supported_instances=(("x86_64", "kvm", "hvm"), ("x86_64", "qemu", "hvm")),
    cpu_info={"arch": "x86_64", "model": "EPYC", "vendor": "AMD", "features": ["aes", "avx2"]},
)


@contextmanager
def fresh_database(backend: str, folder: Path | None = None) -> Iterator[Database]:
    """Open a temporary empty database with the present schema and durable commits."""
    if backend == "sqlite":
        with TemporaryDirectory(prefix="kilonova-bench-", dir=folder) as place:
            yield from _opened(f"sqlite:///{place}/kilonova.db")
        return
    server: DatabaseServer = {"postgresql": PostgreSQL, "mariadb": MariaDB}[backend](durable=True)
    with running(server):
        server.create("kilonova")
        yield from _opened(server.url("kilonova"))


def add_hosts(database: Database, count: int, *, traits: int = 40, servers_on_each: int = 0) -> None:
    """Insert hosts that are up, each with traits and servers."""
    names = [f"compute{row:06d}" for row in range(count)]
    capabilities, first_ip = capabilities_as_json(CAPABILITIES), IPv4Address("10.0.0.1")

    def fill(tx: Transaction) -> None:
        class_ids = dict(tx.execute(sa.select(t.resource_classes.c.name, t.resource_classes.c.id)).all())
        trait_names = t.traits.c.name.like("HW_CPU_X86_%") | t.traits.c.name.like("COMPUTE_VOLUME_%")
        trait_ids = [
            *tx.execute(sa.select(t.traits.c.id).where(t.traits.c.name.in_(NODE_TRAITS))).scalars(),
            *tx.execute(sa.select(t.traits.c.id).where(trait_names).limit(traits - len(NODE_TRAITS))).scalars(),
        ]
        stamp = {"created_at": tx.now}
        first = (tx.execute(sa.select(sa.func.max(t.resource_providers.c.id))).scalar() or 0) + 1
        ids = range(first, first + count)
        uuids = [str(uuid4()) for _ in names]
        _insert(
            tx,
            t.services,
            (
                {
                    **stamp,
                    "uuid": str(uuid4()),
                    "host": name,
                    "binary": "nova-compute",
                    "disabled": False,
                    "forced_down": False,
                }
                for name in names
            ),
        )
        _insert(
            tx,
            t.compute_nodes,
            (
                {
                    **stamp,
                    "uuid": uuid,
                    "host": name,
                    "hypervisor_hostname": name,
                    "host_ip": str(first_ip + row),
                    "capabilities": capabilities,
                    "failed_builds": 0,
                }
                for row, (name, uuid) in enumerate(zip(names, uuids, strict=True))
            ),
        )
        _insert(
            tx,
            t.resource_providers,
            (
                {**stamp, "id": number, "uuid": uuid, "name": name, "generation": 1, "root_provider_id": number}
                for number, uuid, name in zip(ids, uuids, names, strict=True)
            ),
        )
        _insert(
            tx,
            t.inventories,
            (
                {
                    **stamp,
                    "resource_provider_id": number,
                    "resource_class_id": class_ids[name],
                    "total": total,
                    "reserved": reserved,
                    "min_unit": 1,
                    "max_unit": total,
                    "step_size": 1,
                    "allocation_ratio": ratio,
                    "capacity": int((total - reserved) * ratio),
                    "used": _USED_BY_ONE[name] * servers_on_each,
                }
                for number in ids
                for name, (total, reserved, ratio) in INVENTORY.items()
            ),
        )
        pairs = t.resource_providers.join(t.traits, t.traits.c.id.in_(trait_ids))
        every = sa.select(t.resource_providers.c.id, t.traits.c.id).select_from(pairs)
        every = every.where(t.resource_providers.c.id >= first)
        links = t.resource_provider_traits
        tx.execute(sa.insert(links).from_select([links.c.resource_provider_id, links.c.trait_id], every))
        host_agents.register(tx, Process(str(uuid4())), names, host_agents.LEASE)
        if servers_on_each:
            _place_servers(tx, names, servers_on_each, class_ids)

    database.write(fill)


def waiting_orders(database: Database, owner: str, count: int, *, servers: int = 1) -> list[Order]:
    """Insert servers that wait for a host; return ``count`` claim orders of ``servers`` servers each."""
    orders: list[Order] = []
    flows: list[WorkflowRow] = []
    rows: list[Instance] = []
    for number in range(count):
        made = [_instance(f"server{number}-{index}") for index in range(servers)]
        rows += made
        journalled = [
            WorkflowRow(
                uuid=str(uuid4()),
                kind="build",
                instance_uuid=one.uuid,
                reservation_id="r",
                request_id="req",
                step="claim",
            )
            for one in made
        ]
        flows += journalled
        jobs = tuple(Job(flow.instance_uuid, partial(_at_spawn, flow)) for flow in journalled)
        spec = RequestSpec(FLAVOR, None, project_id="p", user_id="u", request_id="req")
        orders.append(Order(spec, jobs))

    def store(tx: Transaction) -> None:
        for start in range(0, len(rows), _ROWS):
            instances.insert(tx, [(one, None) for one in rows[start : start + _ROWS]])
            workflows.insert(tx, flows[start : start + _ROWS], owner)

    database.write(store)
    return orders


def _at_spawn(flow: WorkflowRow, chosen: Chosen) -> NextStep:
    place = {"host": chosen.host, "node": chosen.node, "provider": chosen.provider_uuid}
    row = replace(flow, step="spawn", attempt=1, version=1, facts={**flow.facts, **place})
    return NextStep(row, TaskState.SPAWNING)


def _opened(url: str) -> Iterator[Database]:
    database = Database(url)
    try:
        schema.upgrade(database)
        yield database
    finally:
        database.close()


def _instance(name: str) -> Instance:
    return Instance(
        id=0,
        uuid=str(uuid4()),
        name=name,
        hostname=name,
        project_id="p",
        user_id="u",
        flavor=FLAVOR,
        vm_state=VmState.BUILDING,
        task_state=TaskState.SCHEDULING,
        power_state=PowerState.NOSTATE,
        reservation_id="r",
    )


def _place_servers(tx: Transaction, hosts: Sequence[str], each: int, class_ids: Mapping[str, int]) -> None:
    for start in range(0, len(hosts), 1_000):
        built = [
            (replace(_instance(f"{host}-{index}"), vm_state=VmState.ACTIVE, task_state=None), None)
            for host in hosts[start : start + 1_000]
            for index in range(each)
        ]
        instances.insert(tx, built)
    # The name of a server starts with the name of its host.
    server, inventory, now = t.instances.c, t.inventories.c, sa.literal(tx.now, t.Time)
    host_of = sa.func.substr(server.name, 1, len(hosts[0]))
    placed = server.vm_state == VmState.ACTIVE.value
    tx.execute(sa.update(t.instances).where(placed).values(host=host_of, node=host_of))
    consumers = sa.select(server.uuid, sa.literal("p"), sa.literal("u"), sa.literal(1), now).where(placed)
    columns = ["uuid", "project_id", "user_id", "generation", "created_at"]
    tx.execute(sa.insert(t.consumers).from_select(columns, consumers))
    amount = sa.case({class_ids[name]: used for name, used in _USED_BY_ONE.items()}, value=inventory.resource_class_id)
    used = (
        sa.select(server.uuid, inventory.resource_provider_id, inventory.resource_class_id, amount, now)
        .join_from(t.instances, t.resource_providers, t.resource_providers.c.name == server.host)
        .join(t.inventories, inventory.resource_provider_id == t.resource_providers.c.id)
        .where(placed)
    )
    columns = ["consumer_uuid", "resource_provider_id", "resource_class_id", "used", "created_at"]
    tx.execute(sa.insert(t.allocations).from_select(columns, used))


def _insert(tx: Transaction, table: sa.Table, rows: Any) -> None:
    waiting: list[dict[str, Any]] = []
    for row in rows:
        waiting.append(row)
        if len(waiting) == _ROWS:
            tx.execute(sa.insert(table), waiting)
            waiting.clear()
    if waiting:
        tx.execute(sa.insert(table), waiting)
