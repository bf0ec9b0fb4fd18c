# SPDX-License-Identifier: Apache-2.0
"""Allocations and devices on both hosts while a server moves: the books are right at every step."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from kilonova.claims.checkpointer import Checkpointer
from kilonova.claims.replay import Replay, replay_all
from kilonova.cli.wiring.rules import build_engine
from kilonova.conductor.hosts.host_registration import register_hosts
from kilonova.conductor.workflows.release import release_server
from kilonova.db import allocations, decisions, host_devices, instances, moves, quotas, server_migrations
from kilonova.db.audits import audit
from kilonova.db.audits.finding import Finding
from kilonova.db.core import tables as t
from kilonova.db.core.transaction import Transaction
from kilonova.db.server_migrations import MigrationQuery, list_page
from kilonova.errors import ConcurrentUpdate, InvalidRequest, NotFound, NoValidHost
from kilonova.messaging.messages import HostsStarted
from kilonova.mirror.mirror import Mirror
from kilonova.model.flavor import Flavor
from kilonova.model.instance import Instance, PowerState
from kilonova.model.quota import Usage
from kilonova.model.server_migration import MigrationStatus, MigrationType, ServerMigration
from kilonova.scenario.model import SimulatedCell, SimulatedHost, SimulatedPool
from kilonova.scheduler.devices.pci_request import read_aliases
from support.cell import Cell, host
from support.device_cells import CONFIG
from support.mirrors import assert_equal
from support.moves import again, held, migration_in, migration_of, move, servers, settle
from support.orders import hosts_of, order
from support.world import check_books

LARGE = Flavor("2", "m1.large", vcpus=2, memory_mib=1024, root_gib=2)
PINNED = Flavor("p", "pinned", 2, 512, 1, extra_specs={"hw:cpu_policy": "dedicated", "pci_passthrough:alias": "gpu:1"})
#: Of guests, long before anything is recorded of them.
ORDERED_AT = datetime.fromisoformat("2020-01-01")
SMALL_USE = {"VCPU": 1, "MEMORY_MB": 512, "DISK_GB": 1}
LARGE_USE = {"VCPU": 2, "MEMORY_MB": 1024, "DISK_GB": 2}


def machine(name: str) -> SimulatedHost:
    """A host with one cell of 4 dedicated CPUs and 2 GPUs."""
    numa = (SimulatedCell(2048, cpus="0-7", dedicated="8-11", pages={"4": 262144}),)
    return host(name, memory_mib=4096, numa=numa, pci=(SimulatedPool("10de", "1db4", 2, 0),))


def check(cell: Cell) -> None:
    """All sums are right, the mirror is what a new one would be, and the one that followed the log, too."""
    with cell.database.read() as connection:
        check_books(connection)
    assert cell.mirror.assumed() == ()
    assert_equal(cell.mirror, Mirror.follow(cell.database))


def server(cell: Cell, uuid: str) -> Instance:
    with cell.database.read() as connection:
        return instances.get(connection, uuid)


def repeat(cell: Cell, act: Callable[[Transaction, ServerMigration], None], migration: ServerMigration) -> None:
    """Do it twice: the second time changes nothing."""
    for _ in range(2):
        cell.database.write(lambda tx: act(tx, migration))
        check(cell)


def test_a_resize_holds_both_sides_until_it_is_confirmed(start_machines: Callable[..., Cell]) -> None:
    cell = start_machines(host("a"), host("b"))
    (uuid,) = servers(cell)
    home = server(cell, uuid).host
    away = {"a": "b", "b": "a"}[str(home)]
    wanted = move(cell, uuid, to=LARGE)
    (flow,) = cell.claimer.place(wanted).workflows
    assert flow.facts["host"] == away
    migration = migration_of(cell, wanted)
    assert (migration.status, migration.dest_host) == (MigrationStatus.PRE_MIGRATING, away)
    assert held(cell) == {uuid: {away: LARGE_USE}, migration.uuid: {home: SMALL_USE}}
    assert server(cell, uuid).host == home
    check(cell)

    repeat(cell, moves.switch, migration)
    assert (server(cell, uuid).host, server(cell, uuid).flavor) == (away, LARGE)
    repeat(cell, moves.confirm, migration)
    assert held(cell) == {uuid: {away: LARGE_USE}}
    assert migration_of(cell, wanted).status is MigrationStatus.CONFIRMED
    with pytest.raises(ConcurrentUpdate):
        cell.database.write(lambda tx: moves.revert(tx, migration))


@pytest.mark.parametrize("switched", [False, True])
@pytest.mark.parametrize("ends", [MigrationStatus.REVERTED, MigrationStatus.ERROR, MigrationStatus.CANCELLED])
@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_whatever_is_undone_gives_the_server_back_what_it_had(
    start_machines: Callable[..., Cell], ends: MigrationStatus, *, switched: bool
) -> None:
    cell = start_machines(machine("a"), machine("b"))
    (uuid,) = servers(cell, flavor=PINNED)
    before, home = held(cell), server(cell, uuid)
    with cell.database.read() as connection:
        share = {each.instance_uuid: each.share for each in host_devices.shares(connection)}.get(uuid)
        generations = connection.execute(sa.select(t.consumers.c.generation)).scalars().all()
    wanted = move(cell, uuid, to=LARGE)
    cell.claimer.place(wanted)
    migration = migration_of(cell, wanted)
    if switched:
        repeat(cell, moves.switch, migration)
    repeat(cell, lambda tx, which: moves.undo_claim(tx, which, ends), migration)
    after = server(cell, uuid)
    assert held(cell) == before
    assert (after.host, after.node, after.flavor) == (home.host, home.node, home.flavor)
    assert migration_of(cell, wanted).status is ends
    with cell.database.read() as connection:
        assert {each.instance_uuid: each.share for each in host_devices.shares(connection)}.get(uuid) == share
        (generation,) = connection.execute(sa.select(t.consumers.c.generation)).scalars()
    assert generation > generations[0]
    with pytest.raises(ConcurrentUpdate):
        cell.database.write(lambda tx: moves.switch(tx, migration))


def test_cells_and_devices_are_held_on_both_sides(start_machines: Callable[..., Cell]) -> None:
    cell = start_machines(machine("a"), machine("b"))
    one, other = servers(cell, 2, flavor=PINNED)
    both = [hosts_of(cell, [uuid])[0] for uuid in (one, other)]
    wanted = move(cell, one, kind=MigrationType.LIVE_MIGRATION)
    cell.claimer.place(wanted)
    check(cell)
    migration = migration_of(cell, wanted)
    with cell.database.read() as connection:
        takings = {taking.instance_uuid for taking in host_devices.shares(connection)}
    assert takings == {one, other, migration.uuid}
    cell.database.write(lambda tx: moves.switch(tx, migration))
    repeat(cell, moves.confirm, migration)
    assert migration_of(cell, wanted).status is MigrationStatus.COMPLETED
    assert hosts_of(cell, [one])[0] != both[0]


def test_a_resize_on_the_same_host_holds_both_flavors_there(start_machines: Callable[..., Cell]) -> None:
    cell = start_machines(host("a", vcpus=3))
    group = cell.add_group("anti-affinity")
    (uuid,) = servers(cell, group=group)
    wanted = move(cell, uuid, to=LARGE, leaving=())
    cell.claimer.place(wanted)
    migration = migration_of(cell, wanted)
    assert held(cell) == {uuid: {"a": LARGE_USE}, migration.uuid: {"a": SMALL_USE}}
    check(cell)
    with pytest.raises(NoValidHost):
        cell.claimer.place(order(cell))
    repeat(cell, moves.switch, migration)
    repeat(cell, moves.confirm, migration)
    assert held(cell) == {uuid: {"a": LARGE_USE}}
    assert server(cell, uuid).flavor == LARGE
    cell.claimer.place(order(cell))


def test_another_destination_can_be_claimed_after_the_first_came_to_nothing(
    start_machines: Callable[..., Cell],
) -> None:
    cell = start_machines(host("a"), host("b"), host("c"))
    (uuid,) = servers(cell)
    wanted = move(cell, uuid)
    cell.claimer.place(wanted)
    first = migration_of(cell, wanted)
    repeat(cell, lambda tx, which: moves.undo_claim(tx, which, MigrationStatus.ACCEPTED), first)
    assert migration_of(cell, wanted).dest_host is None
    cell.claimer.place(again(wanted, first))
    assert migration_of(cell, wanted).dest_host not in {first.source_host, first.dest_host}
    check(cell)


@pytest.mark.parametrize("steps", [0, 1, 2])
@pytest.mark.parametrize("policy", ["affinity", "anti-affinity", None])
@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_a_server_that_is_deleted_while_it_moves_leaves_nothing(
    start_machines: Callable[..., Cell], policy: str | None, steps: int
) -> None:
    cell = start_machines(machine("a"), machine("b"))
    group = None if policy is None else cell.add_group(policy)
    (uuid,) = servers(cell, flavor=PINNED, group=group)
    wanted = move(cell, uuid, to=LARGE)
    if steps:
        cell.claimer.place(wanted)
    if steps > 1:
        cell.database.write(lambda tx: moves.switch(tx, migration_in(tx.connection, wanted)))

    def delete(tx: Transaction) -> None:
        release_server(tx, uuid)
        instances.mark_deleted(tx, uuid)

    cell.database.write(delete)
    check(cell)
    assert held(cell) == {}
    assert migration_of(cell, wanted).status is MigrationStatus.FAILED
    with cell.database.read() as connection:
        assert connection.execute(sa.select(t.consumers)).all() == []
        assert host_devices.shares(connection) == ()
        assert quotas.usage_of(connection, "p") == Usage()
        assert connection.execute(sa.select(t.server_group_hosts)).all() == []
    with pytest.raises((NotFound, ConcurrentUpdate)):
        cell.database.write(lambda tx: moves.switch(tx, migration_in(tx.connection, wanted)))


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_quotas_count_the_larger_flavor_while_a_server_is_resized(start_machines: Callable[..., Cell]) -> None:
    cell = start_machines(host("a"), host("b"))
    mixed = Flavor("3", "m1.mixed", vcpus=3, memory_mib=256, root_gib=1)
    (uuid,) = servers(cell)

    def counted() -> Usage:
        check(cell)
        with cell.database.read() as connection:
            return quotas.usage_of(connection, "p")

    assert counted() == Usage(1, 1, 512)
    for ends, left in ((moves.revert, Usage(1, 1, 512)), (moves.confirm, Usage(1, 3, 256))):
        wanted = move(cell, uuid, to=mixed)
        assert counted() == Usage(1, 3, 512)
        cell.claimer.place(wanted)
        migration = migration_of(cell, wanted)
        cell.database.write(lambda tx: moves.switch(tx, migration))  # noqa: B023
        assert counted() == Usage(1, 3, 512)
        repeat(cell, ends, migration)
        assert counted() == left
        settle(cell, uuid)


def test_the_only_member_of_an_affinity_group_takes_it_along(start_machines: Callable[..., Cell]) -> None:
    cell = start_machines(host("a"), host("b"))
    group = cell.add_group("affinity")
    (uuid,) = servers(cell, group=group)
    home = server(cell, uuid).host
    wanted = move(cell, uuid)
    cell.claimer.place(wanted)
    check(cell)
    migration = migration_of(cell, wanted)
    (later,) = servers(cell, group=group)
    assert hosts_of(cell, [later]) == [migration.dest_host]
    cell.database.write(lambda tx: moves.switch(tx, migration))
    repeat(cell, moves.confirm, migration)
    settle(cell, uuid)
    with pytest.raises(NoValidHost):
        cell.claimer.place(move(cell, uuid))
    assert home not in hosts_of(cell, [uuid, later])


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_anti_affinity_counts_a_member_that_moves_on_both_hosts(start_machines: Callable[..., Cell]) -> None:
    cell = start_machines(host("a"), host("b"), host("c"))
    group = cell.add_group("anti-affinity")
    (uuid,) = servers(cell, group=group)
    wanted = move(cell, uuid)
    cell.claimer.place(wanted)
    (later,) = servers(cell, group=group)
    migration = migration_of(cell, wanted)
    assert hosts_of(cell, [later])[0] not in {migration.source_host, migration.dest_host}
    with pytest.raises(NoValidHost):
        cell.claimer.place(order(cell, group=group))
    repeat(cell, moves.revert, migration)
    assert cell.claimer.place(order(cell, group=group)).workflows


@pytest.mark.parametrize("change", ["task", "host", "status", "deleted", "workflow"])
@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_a_move_whose_server_has_changed_claims_nothing(start_machines: Callable[..., Cell], change: str) -> None:
    cell = start_machines(host("a"), host("b"))
    (uuid,) = servers(cell)
    wanted = move(cell, uuid)
    before = held(cell)

    def interfere(tx: Transaction) -> None:
        mine = t.instances.c.uuid == uuid
        match change:
            case "task":
                tx.execute(sa.update(t.instances).where(mine).values(task_state="deleting"))
            case "host":
                tx.execute(sa.update(t.instances).where(mine).values(host="elsewhere"))
            case "status":
                tx.execute(sa.update(t.server_migrations).values(status="error"))
            case "deleted":
                instances.mark_deleted(tx, uuid)
            case "workflow":
                tx.execute(sa.update(t.workflows).values(version=7))

    cell.database.write(interfere)
    placed = cell.claimer.place(wanted)
    assert placed.gone == {uuid}
    assert placed.workflows == ()
    assert held(cell) == before
    assert migration_of(cell, wanted).dest_host is None


@pytest.mark.parametrize("switched", [False, True])
@pytest.mark.parametrize("lost", ["migration", "source", "destination"])
@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_the_audit_knows_moves(start_machines: Callable[..., Cell], lost: str, *, switched: bool) -> None:
    cell = start_machines(machine("a"), machine("b"))
    (uuid,) = servers(cell, flavor=PINNED)
    wanted = move(cell, uuid, to=LARGE)
    cell.claimer.place(wanted)
    migration = migration_of(cell, wanted)
    if switched:
        cell.database.write(lambda tx: moves.switch(tx, migration))
    settle(cell, uuid)
    before = held(cell)

    def findings() -> tuple[Finding, ...]:
        with cell.database.read() as connection:
            return audit.find_all(connection)

    assert findings() == ()
    if lost == "migration":
        cell.database.write(lambda tx: tx.execute(sa.delete(t.server_migrations)))
        cell.database.write(lambda tx: instances.change(tx, uuid, host=server(cell, uuid).host))
    else:
        consumer = migration.uuid if lost == "source" else uuid
        cell.database.write(lambda tx: allocations.delete_for_consumer(tx, consumer))
    assert {finding.kind for finding in findings()} & {"allocation", "server"}
    for _ in range(3):
        for finding in findings():
            cell.database.write(finding.repair)
    assert findings() == ()
    if lost != "migration":
        assert held(cell) == before
        check(cell)
    else:
        assert set(held(cell)) == {uuid}


def test_a_guest_may_be_on_both_hosts_while_it_moves(start_machines: Callable[..., Cell]) -> None:
    cell = start_machines(host("a"), host("b"))
    (uuid,) = servers(cell)
    home = str(server(cell, uuid).host)

    def hosts() -> dict[str, frozenset[str]]:
        with cell.database.read() as connection:
            return instances.hosts_of(connection, [uuid, "unknown"])

    def orphans() -> Mapping[str, tuple[str, ...]]:
        reports = tuple(driver.report() for driver in cell.drivers.values())
        guests = {name: {uuid: PowerState.RUNNING} for name in cell.drivers}
        started = HostsStarted(reports, guests, marked={name: {uuid: ORDERED_AT} for name in cell.drivers})
        process, lease = cell.conductor.process, timedelta(seconds=60)
        found = cell.database.write(lambda tx: register_hosts(tx, started, process, lease))
        return {host: tuple(each.instance_uuid for each in removals) for host, removals in found.removals.items()}

    wanted = move(cell, uuid)
    assert hosts() == {uuid: {home}}
    cell.claimer.place(wanted)
    migration = migration_of(cell, wanted)
    assert hosts() == {uuid: {"a", "b"}}
    assert orphans() == {}
    cell.database.write(lambda tx: moves.switch(tx, migration))
    assert hosts() == {uuid: {"a", "b"}}
    cell.database.write(lambda tx: moves.confirm(tx, migration))
    assert hosts() == {uuid: {migration.dest_host}}
    assert orphans() == {home: (uuid,)}


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_every_move_leaves_a_decision_that_can_be_made_again(start_machines: Callable[..., Cell]) -> None:
    cell = start_machines(host("a"), host("b"))
    group = cell.add_group("affinity")
    Checkpointer(cell.database, 4).take_if_due()
    (uuid,) = servers(cell, group=group)
    for kind in (MigrationType.RESIZE, MigrationType.MIGRATION, MigrationType.LIVE_MIGRATION):
        wanted = move(cell, uuid, to=LARGE if kind is MigrationType.RESIZE else None, kind=kind)
        cell.claimer.place(wanted)
        migration = migration_of(cell, wanted)
        cell.database.write(lambda tx: moves.undo_claim(tx, migration))  # noqa: B023
        settle(cell, uuid)
    cell.database.write(lambda _: None)  # decisions are stored in the background, in order
    with cell.database.read() as connection:
        found = decisions.find(connection, uuid)
        assert [each.body["move"] for each in found] == ["live-migrate", "migrate", "resize", None]
        for outcome in replay_all(connection, build_engine(CONFIG), "", found, read_aliases(CONFIG.pci_alias)):
            assert isinstance(outcome, Replay), outcome
            assert outcome.differences == ()


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_a_status_alone_cannot_end_a_move_that_holds_two_sides(start_machines: Callable[..., Cell]) -> None:
    cell = start_machines(host("a"), host("b"))
    (uuid,) = servers(cell)
    wanted = move(cell, uuid)
    cell.claimer.place(wanted)
    migration = migration_of(cell, wanted)
    at_hand = {MigrationStatus.PRE_MIGRATING}
    with pytest.raises(AssertionError):
        cell.database.write(lambda tx: server_migrations.set_status(tx, migration.uuid, at_hand, MigrationStatus.ERROR))
    for _ in range(2):
        cell.database.write(
            lambda tx: server_migrations.set_status(tx, migration.uuid, at_hand, MigrationStatus.MIGRATING)
        )
    with pytest.raises(ConcurrentUpdate, match="is migrating; expected: pre-migrating"):
        cell.database.write(
            lambda tx: server_migrations.set_status(tx, migration.uuid, at_hand, MigrationStatus.FINISHED)
        )
    check(cell)


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_migrations_are_listed_newest_first_by_what_is_asked(start_machines: Callable[..., Cell]) -> None:
    cell = start_machines(host("a"), host("b"))
    one, other = servers(cell, 2, on="a")
    first, second = move(cell, one, to=LARGE), move(cell, other, kind=MigrationType.LIVE_MIGRATION)
    cell.claimer.place(second)

    def listed(**asked: Any) -> list[str]:
        with cell.database.read() as connection:
            return [each.instance_uuid for each in list_page(connection, MigrationQuery(**asked))]

    assert listed() == [other, one]
    assert listed(instance_uuid=one) == listed(migration_type="resize") == listed(status="accepted") == [one]
    assert listed(host="b") == [other]
    assert listed(host="a", source_compute="a", user_id="u", project_id="p", open_only=True) == [other, one]
    assert listed(limit=1) == [other]
    newest = migration_of(cell, second)
    assert listed(marker=newest.uuid) == [one]
    assert listed(changed_since=newest.updated_at) == [other]
    assert listed(changed_before=migration_of(cell, first).created_at) == [one]
    cell.database.write(lambda tx: moves.undo_claim(tx, newest, MigrationStatus.CANCELLED))
    assert listed(open_only=True) == [one]
    with pytest.raises(InvalidRequest, match="Marker nobody could not be found"):
        listed(marker="nobody")
