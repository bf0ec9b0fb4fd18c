# SPDX-License-Identifier: Apache-2.0
"""A mirror that follows the change log equals a newly loaded one, for any history in batches of any size."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

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
    provider_lists,
    provider_traits,
    providers,
    resource_classes,
    server_groups,
    services,
)
from kilonova.db.allocations import ConsumerRequest
from kilonova.db.core import tables as t
from kilonova.db.core.transaction import Transaction
from kilonova.db.database import Database
from kilonova.db.host_agents import Process
from kilonova.errors import KilonovaError
from kilonova.mirror.mirror import Mirror
from kilonova.mirror.state import Assumption
from kilonova.model.flavor import Flavor
from kilonova.model.host import Capabilities, NodeReport
from kilonova.model.instance import Instance, TaskState, VmState
from kilonova.model.provider import Inventory
from kilonova.model.server_group import ServerGroup
from kilonova.scheduler.guests import guest_kind
from support.mirrors import assert_equal, assert_guests_add_up, assert_use_adds_up, guests_of

Operation = Callable[[Transaction], object]
HOSTS = st.sampled_from(["h0", "h1", "h2", "h3"])
NODES = st.sampled_from(["n0", "n1", "n2", "n3", "n4"])
NUMBERS = st.integers(0, 5)
CLASSES = st.sampled_from(["VCPU", "MEMORY_MB", "CUSTOM_A", "CUSTOM_B"])
TRAITS = st.frozensets(st.sampled_from(["HW_CPU_X86_AVX", "CUSTOM_T", "COMPUTE_NODE"]))
INVENTORIES = st.dictionaries(CLASSES, st.integers(1, 40), min_size=1, max_size=3)
SMALL = Flavor("1", "m1.tiny", 1, 512, 1)


LONG_AGO = datetime(2020, 1, 1)  # noqa: DTZ001 - as the tables store it


def uuid_of(kind: int, number: int) -> str:
    return f"{kind:08x}-0000-4000-8000-{number:012x}"


def report(host: str, node: str, has: dict[str, int], traits: frozenset[str], kind: int) -> Operation:
    def job(tx: Transaction) -> None:
        services.ensure(tx, host, "nova-compute")
        abilities = (None, (), ("pause", "rescue"))[kind % 3]
        capabilities = Capabilities("fake", kind // 3, (("x86_64", "fake", "hvm"),), {"model": kind}, {}, abilities)
        listed = tuple(Inventory(name, total, total // 4, allocation_ratio=1.5) for name, total in has.items())
        metrics = {"cpu.percent": float(kind)} if kind % 2 else {}
        (found,) = compute_nodes.report_all(
            tx, [NodeReport(host, node, capabilities, listed, tuple(traits), metrics=metrics)]
        )
        node_reports.ensure_all(tx, [node_reports.ReportedProvider(found.uuid, node, listed, tuple(traits))])
        aggregates.mirror_into_placement(tx, host)

    return job


def process(number: int, hosts: frozenset[str], what: int) -> Operation:
    """Return an operation that registers a process with hosts, silences it, renews its lease, or ends it."""
    uuid = uuid_of(6, number)
    mine = sa.update(t.processes).where(t.processes.c.uuid == uuid)

    def job(tx: Transaction) -> None:
        match what:
            case 0 | 1:
                host_agents.register(tx, Process(uuid), hosts, host_agents.LEASE)
            case 2:
                tx.execute(mine.values(last_seen_at=LONG_AGO))
                host_agents.mark_silent(tx, tx.now - host_agents.LEASE)
            case 3:
                host_agents.keep_alive(tx, [uuid], host_agents.LEASE)
            case _:
                tx.execute(mine.values(lease_until=LONG_AGO))
                host_agents.forget_ended(tx, host_agents.LEASE)

    return job


def service(host: str, what: int) -> Operation:
    def job(tx: Transaction) -> None:
        found = services.get_by_host(tx.connection, host)
        match what:
            case 0:
                services.update(tx, found.uuid, disabled=True, reason="maintenance")
            case 1:
                services.update(tx, found.uuid, disabled=False, reason=None)
            case 2:
                services.update(tx, found.uuid, forced_down=not found.forced_down)
            case _:
                services.delete(tx, found.uuid)

    return job


def aggregate(number: int, host: str, what: int) -> Operation:
    def job(tx: Transaction) -> None:
        match what:
            case 0:
                aggregates.create(tx, f"a{number}", None)
            case 1:
                aggregates.add_host(tx, number, host, default_zone="nova")
            case 2:
                aggregates.remove_host(tx, number, host, default_zone="nova")
            case 3:
                aggregates.set_metadata(tx, number, {"ssd": "true" if number % 2 else None, "rack": host})
            case 4:
                aggregates.update(tx, number, name=f"b{number}", zone=None if number % 2 else f"z{number}")
            case 5:
                aggregates.set_metadata(tx, number, {"kilonova:only": f"flavor={host}" if number % 2 else None})
            case _:
                aggregates.delete(tx, number)

    return job


def make_instance(number: int, host: str, node: str, group: int | None) -> Operation:
    def job(tx: Transaction) -> None:
        uuid = uuid_of(1, number)
        group_uuid = None if group is None else uuid_of(2, group)
        state = VmState.BUILDING if number % 2 else VmState.ACTIVE
        flavor = replace(SMALL, flavor_id=str(number % 3))
        properties = {"os_distro": "ubuntu", "architecture": "x86_64"} if number % 4 == 0 else {}
        made = Instance(0, uuid, "vm", "p", "u", state, flavor, image_properties=properties)
        instances.insert(tx, [(made, group_uuid)])
        instances.change(tx, uuid, host=host, node=node)
        if group_uuid is not None and not group_guards.join_hosts(tx, group_uuid, {host: 1}):
            raise KilonovaError("does not exist")

    return job


def change_instance(number: int, what: int, host: str) -> Operation:
    def job(tx: Transaction) -> None:
        uuid = uuid_of(1, number)
        match what:
            case 0:
                instances.change(tx, uuid, vm_state=VmState.ACTIVE, task_state=TaskState.REBUILDING)
            case 1:
                instances.change(tx, uuid, host=None, node=None, task_state=TaskState.SCHEDULING)
            case 2:
                instances.change(tx, uuid, host=host, node=host)
            case _:
                group = instances.group_of(tx.connection, uuid)
                found = instances.get(tx.connection, uuid)
                if group is not None and found.host is not None:
                    group_guards.leave(tx, group, found.host)
                instances.mark_deleted(tx, uuid)

    return job


def group(number: int, what: int, policy: str) -> Operation:
    uuid = uuid_of(2, number)
    if what:
        return lambda tx: server_groups.delete(tx, uuid)
    return lambda tx: server_groups.create(tx, ServerGroup(uuid, "g", policy, "p", "u", 2), limit=-1)


def nth_provider(tx: Transaction, number: int) -> providers.Provider:
    found = provider_lists.list_matching(tx.connection, provider_lists.ProviderQuery())
    if not found:
        raise KilonovaError("none")
    return found[number % len(found)]


def allocate(number: int, consumer: int, amounts: dict[str, int]) -> Operation:
    def job(tx: Transaction) -> None:
        where = {nth_provider(tx, number).uuid: amounts}
        allocations.replace(tx, [ConsumerRequest(uuid_of(3, consumer), "p", "u", where)])

    return job


def release(consumer: int) -> Operation:
    return lambda tx: allocations.delete_for_consumer(tx, uuid_of(3, consumer))


def provider(number: int, what: int, has: dict[str, int], traits: frozenset[str]) -> Operation:
    def job(tx: Transaction) -> None:
        if what == 0:
            parent = nth_provider(tx, number).uuid if number % 2 else None
            providers.create(tx, uuid_of(4, number), f"p{number}", parent)
            return
        found = nth_provider(tx, number)
        listed = [Inventory(name, total) for name, total in has.items()]
        match what:
            case 1:
                inventories.replace(tx, found, listed)
            case 2:
                provider_traits.replace(tx, found, [name for name in traits if not name.startswith("CUSTOM")])
            case 3:
                provider_aggregates.replace(tx, found, [uuid_of(5, number)])
            case 4:
                providers.update(tx, found.uuid, name=f"renamed{number}")
            case 5:
                compute_nodes.count_failed_build(tx, found.uuid)
            case _:
                providers.delete(tx, found.uuid)

    return job


def classes(what: int) -> Operation:
    def job(tx: Transaction) -> None:
        match what:
            case 0:
                resource_classes.ensure(tx, "CUSTOM_A")
                resource_classes.ensure(tx, "CUSTOM_B")
            case 1:
                resource_classes.rename(tx, "CUSTOM_A", "CUSTOM_C")
            case 2:
                resource_classes.rename(tx, "CUSTOM_C", "CUSTOM_A")
            case _:
                resource_classes.delete(tx, "CUSTOM_B")

    return job


OPERATIONS = st.one_of(
    st.builds(report, HOSTS, NODES, INVENTORIES, TRAITS, st.integers(0, 1)),
    st.builds(report, HOSTS, NODES, INVENTORIES, TRAITS, st.integers(0, 1)),
    st.builds(process, st.integers(0, 2), st.frozensets(HOSTS), st.integers(0, 4)),
    st.builds(service, HOSTS, st.integers(0, 3)),
    st.builds(aggregate, st.integers(1, 3), HOSTS, st.integers(0, 6)),
    st.builds(make_instance, NUMBERS, HOSTS, NODES, st.none() | st.integers(0, 1)),
    st.builds(change_instance, NUMBERS, st.integers(0, 3), HOSTS),
    st.builds(
        group, st.integers(0, 1), st.integers(0, 1), st.sampled_from(["affinity", "anti-affinity", "soft-affinity"])
    ),
    st.builds(allocate, NUMBERS, NUMBERS, st.dictionaries(CLASSES, st.integers(1, 9), min_size=1, max_size=2)),
    st.builds(release, NUMBERS),
    st.builds(provider, NUMBERS, st.integers(0, 6), INVENTORIES, TRAITS),
    st.builds(classes, st.integers(0, 3)),
)
#: Histories: lists of transactions of one or more operations each.
HISTORIES = st.lists(st.lists(OPERATIONS, min_size=1, max_size=4), min_size=3, max_size=25)


def apply(database: Database, batch: list[Operation]) -> None:
    def job(tx: Transaction) -> None:
        for operation in batch:
            try:
                with tx.savepoint():
                    operation(tx)
            except (KilonovaError, compute_nodes.sa.exc.IntegrityError):
                pass

    database.write(job)


@pytest.fixture
def folder(sqlite_template: Path) -> Path:
    return sqlite_template


@settings(max_examples=35, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(HISTORIES)
def test_following_is_loading(folder: Path, history: list[list[Operation]]) -> None:
    with TemporaryDirectory() as place:
        file = Path(place) / "kilonova.db"
        shutil.copy(folder, file)
        database, elsewhere = Database(f"sqlite:///{file}"), Database(f"sqlite:///{file}")
        clock = lambda: 1.0  # noqa: E731
        followed = Mirror.follow(database, clock=clock)
        behind = Mirror.follow(elsewhere, clock=clock)
        guests_of(
            followed
        )  # the first call makes the mirror maintain the guest counts instead of computing them on demand
        for batch in history:
            apply(database, batch)
        loaded = Mirror.follow(Database(f"sqlite:///{file}"), clock=clock)
        assert_equal(followed, loaded)
        if behind.seq < followed.seq:
            behind._read_up_to(followed.seq)
        assert_equal(behind, loaded)
        assert_use_adds_up(followed)
        for used in (database, elsewhere, loaded.database):
            used.close()


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(HISTORIES, st.data())
def test_assumptions_survive_whatever_is_followed(
    folder: Path, history: list[list[Operation]], data: st.DataObject
) -> None:
    with TemporaryDirectory() as place:
        file = Path(place) / "kilonova.db"
        shutil.copy(folder, file)
        database = Database(f"sqlite:///{file}")
        followed = Mirror.follow(database, clock=lambda: 1.0)
        made = 0
        for batch in history:
            apply(database, batch)
            if followed._state.providers.uuids and data.draw(st.booleans()):
                uuid = data.draw(st.sampled_from(followed._state.providers.uuids))
                amounts = data.draw(st.dictionaries(CLASSES, st.integers(1, 5), min_size=1, max_size=2))
                guest = guest_kind(str(made % 3), {"os_distro": "ubuntu"})
                followed.assume(Assumption(f"claim{made}", {uuid: amounts}, "h0", "n0", uuid_of(2, 0), guest))
                made += 1
            if data.draw(st.integers(0, 9)) == 0:
                followed.reload()
            assert_use_adds_up(followed)
            assert_guests_add_up(followed)
        for number in range(made):
            followed.forget(f"claim{number}")
        loaded = Mirror.follow(Database(f"sqlite:///{file}"), clock=lambda: 1.0)
        assert_equal(followed, loaded)
        assert followed._state.groups._assumed == {}
        for used in (database, loaded.database):
            used.close()
