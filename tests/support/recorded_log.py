# SPDX-License-Identifier: Apache-2.0
"""Change log and checkpoint as written by a release, with the mirror state that the release built from them.

``python -m support.recorded_log FILE`` (in ``tests/``) records those of the current release. Recordings are kept: later
releases must read them and build the same state.
"""

import base64
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, is_dataclass, replace
from datetime import datetime
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import sqlalchemy as sa

from kilonova.claims.checkpointer import Checkpointer
from kilonova.db import (
    aggregates,
    allocations,
    compute_nodes,
    group_guards,
    host_agents,
    instances,
    inventories,
    node_reports,
    provider_aggregates,
    provider_traits,
    providers,
    resource_classes,
    schema,
    server_groups,
    services,
)
from kilonova.db.allocations import ConsumerRequest
from kilonova.db.core import tables as t
from kilonova.db.core.transaction import Transaction
from kilonova.db.database import Database
from kilonova.db.host_agents import Process
from kilonova.mirror.mirror import Mirror
from kilonova.model.flavor import Flavor
from kilonova.model.host import Capabilities, NodeReport
from kilonova.model.instance import Instance, TaskState, VmState
from kilonova.model.provider import Inventory
from kilonova.model.server_group import ServerGroup
from support.device_clouds import some_host
from support.mirrors import guests_of, hosts_of, providers_of

NOW = 1_700_000_000.0
_SHARED = "00000005-0000-4000-8000-000000000001"
_INVENTORIES = (Inventory("VCPU", 16, 1, allocation_ratio=4.0), Inventory("MEMORY_MB", 32768, 512, max_unit=16384))
_FLAVOR = Flavor("1", "m1.tiny", 1, 512, 1)


@dataclass(frozen=True)
class Recording:
    """Recording.

    ``checkpoint``: its parts as stored, of the state after commit ``seq``. ``log``: (seq, body) of each commit.
    """

    seq: int
    checkpoint: tuple[bytes, ...]
    log: tuple[tuple[int, bytes], ...]
    facts: Mapping[str, Any]

    @classmethod
    def read(cls, file: Path) -> "Recording":
        content = json.loads(file.read_text())
        parts = tuple(base64.b64decode(part) for part in content["checkpoint"])
        return cls(content["seq"], parts, tuple((seq, body.encode()) for seq, body in content["log"]), content["facts"])

    def write(self, file: Path) -> None:
        content = {
            "seq": self.seq,
            "checkpoint": [base64.b64encode(part).decode() for part in self.checkpoint],
            "log": [[seq, body.decode()] for seq, body in self.log],
            "facts": self.facts,
        }
        file.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n")


def facts_of(mirror: Mirror) -> dict[str, Any]:
    """Return everything that scheduler rules can see, as plain JSON."""
    table = mirror.snapshot()
    found = {
        "seq": mirror.seq,
        "hosts": hosts_of(table),
        "isolation": table.aggregates.isolation_version,
        "instances": {uuid: table.hosts[row] for uuid, row in sorted(table.instance_rows.items())},
        "guests": [{" = ".join(key): count for key, count in each.items()} for each in guests_of(mirror)],
        "providers": providers_of(mirror.providers()),
        "groups": {uuid: mirror.group(uuid) for uuid in map(_group, range(4))},
    }
    plain: dict[str, Any] = json.loads(json.dumps(_plain(found), sort_keys=True))
    return plain


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return _plain(asdict(value))
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, set | frozenset):
        return sorted((_plain(each) for each in value), key=str)
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value.item() if hasattr(value, "item") else value


# --- recording --------------------------------------------------------------------------------------------------------


def _group(number: int) -> str:
    return f"00000002-0000-4000-8000-{number:012x}"


def _instance(number: int) -> str:
    return f"00000001-0000-4000-8000-{number:012x}"


def _provider(number: int) -> str:
    return f"00000004-0000-4000-8000-{number:012x}"


def _report(number: int, **changed: Any) -> Callable[[Transaction], None]:
    def job(tx: Transaction) -> None:
        host = f"host{number}"
        services.ensure(tx, host, "nova-compute")
        triples = (("x86_64", "fake", "hvm"), ("i686", "fake", "hvm"))
        cpu_info = {"model": "Q35", "features": ["avx"]}
        abilities = (None, ("cold-migrate", "pause"))[number % 2]
        capabilities = Capabilities("fake", 1000 + number % 2, triples, cpu_info, {"a": "b"}, abilities)
        said = NodeReport(host, f"node{number}", capabilities, _INVENTORIES, ("HW_CPU_X86_AVX", "COMPUTE_NODE"))
        said = replace(said, **{"host_ip": f"10.0.0.{number}", **changed})
        (node,) = compute_nodes.report_all(tx, [said])
        node_reports.ensure_all(
            tx, [node_reports.ReportedProvider(node.uuid, said.hypervisor_hostname, said.inventories, said.traits)]
        )
        aggregates.mirror_into_placement(tx, host)

    return job


def _serve(number: int, host: int, group: int | None = None) -> Callable[[Transaction], None]:
    def job(tx: Transaction) -> None:
        flavor = replace(_FLAVOR, flavor_id=str(number % 3))
        properties = {"os_distro": "ubuntu"} if number % 2 else {}
        state = VmState.BUILDING if number == 3 else VmState.ACTIVE
        made = Instance(0, _instance(number), f"vm{number}", "p", "u", state, flavor, image_properties=properties)
        uuid = None if group is None else _group(group)
        instances.insert(tx, [(made, uuid)])
        instances.change(tx, made.uuid, host=f"host{host}", node=f"node{host}")
        if uuid is not None:
            assert group_guards.join_hosts(tx, uuid, {f"host{host}": 1})

    return job


def _state() -> Iterator[Callable[[Transaction], object]]:
    """Return the state that the checkpoint contains."""
    for number in range(5):
        metrics = {"cpu.percent": 0.5, "power": 120.25} if number == 1 else {}
        yield _report(number, devices=some_host(Random(number)), metrics=metrics)
    yield lambda tx: aggregates.create(tx, "zone", "z1")
    yield lambda tx: aggregates.add_host(tx, 1, "host0", default_zone="nova")
    yield lambda tx: server_groups.create(tx, ServerGroup(_group(0), "g", "anti-affinity", "p", "u", 2), limit=-1)
    yield lambda tx: server_groups.create(tx, ServerGroup(_group(1), "g", "affinity", "p", "u", 1), limit=-1)
    for number in range(4):
        yield _serve(number, number, 0 if number < 2 else None)
    yield lambda tx: providers.create(tx, _provider(0), "storage", None)
    yield lambda tx: provider_aggregates.replace(tx, providers.get(tx.connection, _provider(0)), [_SHARED])


def _changes() -> Iterator[Callable[[Transaction], object]]:
    """Return changes of every kind, including removals."""
    yield lambda tx: _hosts_of(tx, 0, "host0", "host1", "nobody")
    yield lambda tx: services.update(tx, _service(tx, 1), disabled=True, reason="maintenance")
    yield lambda tx: services.update(tx, _service(tx, 2), forced_down=True)
    yield _report(6, devices=some_host(Random(6)))
    yield _report(1, host_ip="10.9.9.9", metrics={"cpu.percent": 0.75})
    yield lambda tx: compute_nodes.count_failed_build(tx, _node(tx, 3))
    yield lambda tx: aggregates.create(tx, "rack", None)
    yield lambda tx: aggregates.add_host(tx, 2, "host3", default_zone="nova")
    yield lambda tx: aggregates.set_metadata(tx, 2, {"ssd": "true", "kilonova:only": "flavor=2"})
    yield lambda tx: aggregates.create(tx, "passing", None)
    yield lambda tx: aggregates.delete(tx, 3)
    yield lambda tx: server_groups.create(tx, ServerGroup(_group(2), "g", "soft-affinity", "p", "u", 1), limit=-1)
    yield lambda tx: server_groups.delete(tx, _group(1))
    yield _serve(4, 3, 2)
    yield _serve(5, 0)
    yield lambda tx: instances.change(tx, _instance(2), vm_state=VmState.ACTIVE, task_state=TaskState.REBUILDING)
    yield _leave
    yield lambda tx: resource_classes.ensure(tx, "CUSTOM_GOLD")
    yield lambda tx: providers.create(tx, _provider(1), "child", _node(tx, 0))
    yield lambda tx: providers.create(tx, _provider(2), "passing", None)
    yield lambda tx: providers.delete(tx, _provider(2))
    yield _equip
    yield lambda tx: allocations.replace(
        tx, [ConsumerRequest(_instance(0), "p", "u", {_node(tx, 0): {"VCPU": 3, "MEMORY_MB": 1024}})]
    )
    yield lambda tx: allocations.replace(
        tx, [ConsumerRequest(_instance(4), "p", "u", {_provider(1): {"CUSTOM_GOLD": 2}, _node(tx, 3): {"VCPU": 1}})]
    )
    yield lambda tx: tx.claims.append("00000009-0000-4000-8000-000000000001")
    yield lambda tx: services.delete(tx, _service(tx, 4))
    yield lambda tx: _hosts_of(tx, 1, "host2", "host3")
    yield _fall_silent
    yield lambda tx: _hosts_of(tx, 2, "host1", "host3")


def _hosts_of(tx: Transaction, process: int, *hosts: str) -> None:
    host_agents.register(tx, Process(f"00000006-0000-4000-8000-{process:012x}"), hosts, host_agents.LEASE)


def _fall_silent(tx: Transaction) -> None:
    tx.execute(sa.update(t.processes).values(last_seen_at=datetime(2023, 11, 14)))  # noqa: DTZ001 - as the tables store it
    host_agents.mark_silent(tx, tx.now - host_agents.LEASE)


def _equip(tx: Transaction) -> None:
    inventories.replace(tx, providers.get(tx.connection, _provider(1)), [Inventory("CUSTOM_GOLD", 8, step_size=2)])
    provider_traits.replace(tx, providers.get(tx.connection, _provider(1)), ["HW_CPU_X86_AVX2"])
    provider_aggregates.replace(tx, providers.get(tx.connection, _provider(1)), [_SHARED])


def _leave(tx: Transaction) -> None:
    group_guards.leave(tx, _group(0), "host1")
    instances.mark_deleted(tx, _instance(1))


def _service(tx: Transaction, number: int) -> str:
    return services.get_by_host(tx.connection, f"host{number}").uuid


def _node(tx: Transaction, number: int) -> str:
    (node,) = compute_nodes.list_by_host(tx.connection, f"host{number}")
    return node.uuid


@contextmanager
def _new_database(folder: Path) -> Iterator[Database]:
    database = Database(f"sqlite:///{folder / 'kilonova.db'}")
    schema.upgrade(database)
    yield database
    database.close()


def record() -> Recording:
    """Create a cloud, write a checkpoint, apply changes, and return the recording with the mirror's final state."""
    with TemporaryDirectory() as folder, _new_database(Path(folder)) as database:
        mirror = Mirror.follow(database, clock=lambda: NOW)
        for job in _state():
            database.write(job)
        seq = Checkpointer(database, 1).take_if_due()
        assert seq is not None
        for job in _changes():
            database.write(job)
        with database.read() as connection:
            parts = t.checkpoint_parts.c
            checkpoint = tuple(connection.execute(sa.select(parts.body).order_by(parts.part)).scalars())
            log = t.change_log.c
            found = connection.execute(sa.select(log.seq, log.body).where(log.seq > seq).order_by(log.seq))
            return Recording(seq, checkpoint, tuple((row.seq, row.body) for row in found), facts_of(mirror))


if __name__ == "__main__":
    record().write(Path(sys.argv[1]))
