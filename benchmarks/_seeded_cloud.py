# SPDX-License-Identifier: Apache-2.0
"""Clouds written straight into the tables: many hosts, servers on them, servers that wait for a host."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import sqlalchemy as sa
from tests.support.database_servers import DatabaseServer, MariaDB, PostgreSQL, running

from kilonova.claims.claimer import Order
from kilonova.db import instances, schema, workflows
from kilonova.db import tables as t
from kilonova.db.compute_nodes import capabilities_as_json
from kilonova.db.database import Database, Transaction
from kilonova.db.workflows import Workflow
from kilonova.model.flavor import Flavor
from kilonova.model.host import Capabilities
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
    """Open an upgraded, empty database whose commits are flushed to disk; it is gone afterwards."""
    if backend == "sqlite":
        with TemporaryDirectory(prefix="kilonova-bench-", dir=folder) as place:
            yield from _opened(f"sqlite:///{place}/kilonova.db")
        return
    server: DatabaseServer = {"postgresql": PostgreSQL, "mariadb": MariaDB}[backend](durable=True)
    with running(server):
        server.create("kilonova")
        yield from _opened(server.url("kilonova"))


def add_hosts(database: Database, count: int, *, traits: int = 40, servers_on_each: int = 0) -> None:
    """Add hosts that are up, each with its traits and servers."""
    names = [f"compute{row:06d}" for row in range(count)]
    capabilities = capabilities_as_json(CAPABILITIES)

    def fill(tx: Transaction) -> None:
        class_ids = dict(tx.execute(sa.select(t.resource_classes.c.name, t.resource_classes.c.id)).all())
        trait_names = t.traits.c.name.like("HW_CPU_X86_%") | t.traits.c.name.like("COMPUTE_VOLUME_%")
        trait_ids = tx.execute(sa.select(t.traits.c.id).where(trait_names).limit(traits)).scalars().all()
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
                    "last_seen_at": tx.now,
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
                    "host_ip": "192.0.2.1",
                    "capabilities": capabilities,
                    "failed_builds": 0,
                }
                for name, uuid in zip(names, uuids, strict=True)
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
        _insert(
            tx,
            t.resource_provider_traits,
            ({"resource_provider_id": number, "trait_id": trait} for number in ids for trait in trait_ids),
        )
        if servers_on_each:
            _place_servers(tx, list(zip(ids, names, strict=True)), servers_on_each, class_ids)

    database.write(fill)


def waiting_orders(database: Database, owner: str, count: int, *, servers: int = 1) -> list[Order]:
    """Store servers that wait for a host and return one order for every ``servers`` of them."""
    orders: list[Order] = []
    flows: list[Workflow] = []
    rows: list[Instance] = []
    for number in range(count):
        made = [_instance(f"server{number}-{index}") for index in range(servers)]
        rows += made
        journalled = [Workflow(str(uuid4()), "build", one.uuid, "r", "req", "claim") for one in made]
        flows += journalled
        claimed = tuple(Workflow(flow.uuid, "build", flow.instance_uuid, "r", "req", "spawn", 1) for flow in journalled)
        spec = RequestSpec(FLAVOR, None, project_id="p", user_id="u", request_id="req")
        orders.append(Order(spec, claimed))

    def store(tx: Transaction) -> None:
        for start in range(0, len(rows), _ROWS):
            instances.insert(tx, [(one, None) for one in rows[start : start + _ROWS]])
            workflows.insert(tx, flows[start : start + _ROWS], owner)

    database.write(store)
    return orders


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


def _place_servers(tx: Transaction, hosts: Sequence[tuple[int, str]], each: int, class_ids: dict[str, int]) -> None:
    for start in range(0, len(hosts), 1_000):
        allocations: list[dict[str, Any]] = []
        servers: list[Instance] = []
        for number, host in hosts[start : start + 1_000]:
            for index in range(each):
                server = replace(_instance(f"{host}-{index}"), vm_state=VmState.ACTIVE, task_state=None)
                servers.append(server)
                allocations += [
                    {
                        "consumer_uuid": server.uuid,
                        "resource_provider_id": number,
                        "resource_class_id": class_ids[name],
                        "used": used,
                        "created_at": tx.now,
                    }
                    for name, used in _USED_BY_ONE.items()
                ]
        instances.insert(tx, [(server, None) for server in servers])
        _insert(
            tx,
            t.consumers,
            (
                {"uuid": server.uuid, "project_id": "p", "user_id": "u", "generation": 1, "created_at": tx.now}
                for server in servers
            ),
        )
        _insert(tx, t.allocations, allocations)
    # A server is named after its host and a number.
    host_of = sa.func.substr(t.instances.c.name, 1, len(hosts[0][1]))
    tx.execute(
        sa.update(t.instances).where(t.instances.c.vm_state == VmState.ACTIVE.value).values(host=host_of, node=host_of)
    )


def _insert(tx: Transaction, table: sa.Table, rows: Any) -> None:
    waiting: list[dict[str, Any]] = []
    for row in rows:
        waiting.append(row)
        if len(waiting) == _ROWS:
            tx.execute(sa.insert(table), waiting)
            waiting.clear()
    if waiting:
        tx.execute(sa.insert(table), waiting)
