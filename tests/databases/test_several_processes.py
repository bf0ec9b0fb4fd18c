# SPDX-License-Identifier: Apache-2.0
"""Control processes that share a server database. Each has mirror, conductor, agents and hypervisors of its own."""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from kilonova.clock import utc_now
from kilonova.db import aggregates, host_agents
from kilonova.db.core import change_log
from kilonova.db.core import tables as t
from kilonova.db.core.transaction import Transaction
from kilonova.db.database import Database
from kilonova.messaging.messages import SpawnGuest
from kilonova.mirror.mirror import Mirror
from kilonova.model.instance import VmState
from support.cell import IMAGE, Cell, asker, host, start_cell
from support.folder_images import FolderImages
from support.manual_bus import ManualBus
from support.mirrors import assert_equal
from support.processes import pass_time
from support.world import check_books, check_world, guests_on_disk

pytestmark = pytest.mark.parametrize("kind", ["postgresql", "mariadb"], indirect=True)


class Clock:
    """The present of the database, which a test can move on."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def advance(self, passed: timedelta) -> None:
        pass_time(self._database, passed, (t.processes, t.change_log))


@pytest.fixture
def clock(database_url: str) -> Iterator[Clock]:
    database = Database(database_url)
    yield Clock(database)
    database.close()


@pytest.fixture
def start(database_url: str, tmp_path: Path) -> Iterator[Callable[..., Cell]]:
    """Starts a control process with the hosts that are named."""
    opened: list[Database] = []

    def process(*names: str, folder: str | None = None, images: FolderImages | None = None) -> Cell:
        opened.append(Database(database_url))
        place = tmp_path / (folder or "-".join(names) or "none")
        place.mkdir(exist_ok=True)
        hosts = tuple(host(name) for name in names)
        return start_cell(place, hosts, bus=ManualBus(), database=opened[-1], images=images)

    yield process
    for database in opened:
        database.close()


def run(*cells: Cell) -> None:
    """Let processes work until none has anything to do."""
    busy = True
    while busy:
        busy = False
        for cell in cells:
            inherited = cell.conductor.process_lease.take_handed_over()
            busy = bool(inherited) or bool(cell.bus._work) or busy
            cell.bus.run()


def check_done(cell: Cell) -> None:
    """The books balance, and nobody has anything left to do."""
    with cell.database.read() as connection:
        check_books(connection)
        assert connection.execute(sa.select(t.workflows)).all() == []


def check(cells: Sequence[Cell]) -> dict[str, str]:
    """The world is in order: one database, everybody's hypervisors."""
    guests: dict[str, set[str]] = {}
    for cell in cells:
        guests |= guests_on_disk(cell.folder / "hypervisors")
    with cells[0].database.read() as connection:
        states = check_world(connection, guests)
    for cell in cells:
        cell.mirror.catch_up()
        assert not cell.mirror.assumed()
        assert not cell.conductor.runner.known
        assert_equal(cell.mirror, Mirror.follow(Database(str(cell.database.url))))
    return states


def test_every_process_sees_what_any_has_committed(start: Callable[..., Cell]) -> None:
    one, other = start("a"), start("b")
    for name in ("first", "second", "third"):
        made = one.database.write(lambda tx, name=name: aggregates.create(tx, name))  # type: ignore[misc]
        assert name in {each.name for each in other.mirror.snapshot().aggregates.aggregates}
        other.database.write(
            lambda tx, made=made: aggregates.set_metadata(tx, made.id, {"by": "other"})  # type: ignore[misc]
        )
        found = {each.name: each.metadata for each in one.mirror.snapshot().aggregates.aggregates}
        assert found[name] == {"by": "other"}
    assert_equal(one.mirror, other.mirror)
    assert one.mirror.snapshot().hosts == ("a", "b")


def test_own_and_foreign_commits_are_followed_in_order(start: Callable[..., Cell]) -> None:
    """Many threads in three processes change one aggregate; nobody ends with an old value."""
    cells = [start("a"), start("b"), start("c")]
    made = cells[0].database.write(lambda tx: aggregates.create(tx, "shared"))

    def change(number: int) -> None:
        database = cells[number % 3].database
        database.write(lambda tx: aggregates.set_metadata(tx, made.id, {f"key{number % 10}": str(number)}))

    with ThreadPoolExecutor(12) as pool:
        list(pool.map(change, range(150)))
    with cells[0].database.read() as connection:
        stored = aggregates.get(connection, made.id)
        seqs = list(connection.execute(sa.select(t.change_log.c.seq).order_by(t.change_log.c.seq)).scalars())
    assert seqs == list(range(1, len(seqs) + 1))
    for cell in cells:
        found = {each.id: each for each in cell.mirror.snapshot().aggregates.aggregates}
        assert found[made.id].metadata == stored.metadata
        assert_equal(cell.mirror, cells[0].mirror)


def test_a_process_behind_the_oldest_log_row_loads_anew(start: Callable[..., Cell], clock: Clock) -> None:
    one, other = start("a"), start("b")
    for number in range(3):
        one.database.write(lambda tx, number=number: aggregates.create(tx, f"a{number}"))  # type: ignore[misc]
    clock.advance(timedelta(hours=2))
    one.database.write(lambda tx: change_log.trim(tx, timedelta(hours=1)))
    with one.database.read() as connection:
        assert connection.execute(sa.select(sa.func.count()).select_from(t.change_log)).scalar_one() == 2
    assert len(other.mirror.snapshot().aggregates.aggregates) == 3
    assert_equal(one.mirror, other.mirror)


def test_a_mirror_notices_that_the_database_was_set_back(start: Callable[..., Cell]) -> None:
    cell = start("a")
    cell.database.write(lambda tx: aggregates.create(tx, "one"))

    def restore(tx: Transaction) -> None:
        tx.execute(sa.delete(t.aggregates))
        tx.execute(sa.update(t.change_counter).values(seq=1))
        tx.execute(sa.delete(t.change_log))

    with cell.database._engines.writer.begin() as connection:
        restore(Transaction(connection, utc_now()))
    assert cell.mirror.snapshot().aggregates.aggregates == ()


def test_servers_are_built_where_their_hosts_are(start: Callable[..., Cell]) -> None:
    one, other = start("a", "b"), start("c", "d")
    uuids = one.boot(16)  # four hosts have room for four each
    run(one, other)
    assert set(check([one, other]).values()) == {VmState.ACTIVE}
    spawned = {message.instance_uuid for message in other.bus.sent if isinstance(message, SpawnGuest)}
    assert len(spawned) == 8
    for uuid in uuids:
        one.delete(uuid)
    run(one, other)
    assert check([one, other]) == {}


def test_power_actions_reach_hosts_of_other_processes(start: Callable[..., Cell]) -> None:
    one, other = start(), start("b")
    (uuid,) = one.boot()
    run(one, other)
    one.power(uuid, "stop")
    run(one, other)
    assert other.instance(uuid).vm_state is VmState.STOPPED
    other.power(uuid, "start")
    run(one, other)
    assert check([one, other]) == {uuid: VmState.ACTIVE}


def test_what_another_process_has_ended_waits_for_the_image_that_is_registered(
    start: Callable[..., Cell], tmp_path: Path
) -> None:
    images = FolderImages(tmp_path / "images")
    images.add(IMAGE.id, b"what servers are made of")
    one, other = start("a", images=images), start("b", images=images)
    (uuid,) = other.boot(force_host="b")
    run(one, other)
    other.crash_dump(uuid)
    register = one._registered("copy", uuid, image_type="snapshot")

    def register_afterwards() -> None:
        other.bus.run()
        run(one)
        register()

    one.conductor.operations.snapshots.create_image(uuid, "copy", asker("req-1"), register_afterwards)
    run(one, other)
    check([one, other])
    assert one.instance(uuid).task_state is None
    assert images.find("copy").status == "active"


def test_the_work_of_a_live_process_is_left_alone(start: Callable[..., Cell], clock: Clock) -> None:
    one, other = start("a"), start("b")
    one.boot(2)
    clock.advance(host_agents.LEASE / 2)
    one.renew_leases()
    clock.advance(host_agents.LEASE / 2 + timedelta(seconds=5))
    assert other.conductor.process_lease.resume() == 0
    run(one, other)
    assert set(check([one, other]).values()) == {VmState.ACTIVE}


def test_the_work_of_a_dead_process_is_finished_by_another(start: Callable[..., Cell], clock: Clock) -> None:
    dead, other = start("a"), start("b")
    dead.boot(3)  # stored, and never claimed
    assert other.conductor.process_lease.resume() == 0
    clock.advance(host_agents.LEASE + timedelta(seconds=5))
    other.renew_leases()
    run(other)
    check_done(other)
    with other.database.read() as connection:
        states = connection.execute(sa.select(t.instances.c.host, t.instances.c.vm_state)).all()
    assert {state for _, state in states} <= {VmState.ACTIVE, VmState.ERROR}
    assert {place for place, state in states if state == VmState.ACTIVE} <= {"b"}


def test_what_is_handed_to_a_process_that_dies_waits_for_its_successor(
    start: Callable[..., Cell], clock: Clock
) -> None:
    one, dead = start(), start("b", folder="b")
    uuids = one.boot(2)
    one.bus.run()  # claimed on b, handed over, and never taken
    clock.advance(host_agents.LEASE / 2)
    one.renew_leases()
    successor = start("b", folder="b")
    clock.advance(host_agents.LEASE / 2 + timedelta(seconds=5))
    for cell in (one, successor):
        cell.renew_leases()
    run(one, successor)
    assert check([one, successor]) == dict.fromkeys(uuids, VmState.ACTIVE)
    assert dead.conductor.process_lease.take_handed_over() == 0


def test_a_host_whose_process_died_for_good_is_given_up(start: Callable[..., Cell], clock: Clock) -> None:
    one, dead = start("a"), start("b")
    del dead
    uuids = one.boot(8)
    one.bus.run()
    clock.advance(host_agents.LEASE + timedelta(seconds=5))
    one.renew_leases()
    run(one)
    check_done(one)
    states = [one.instance(uuid) for uuid in uuids]
    assert sum(each.vm_state is VmState.ACTIVE and each.host == "a" for each in states) == 4
    assert all(each.fault is not None for each in states if each.vm_state is VmState.ERROR)


def test_what_is_due_is_reclaimed_once_whoever_looks_and_whoever_dies(start: Callable[..., Cell], clock: Clock) -> None:
    one, other = start("a"), start("b")
    uuids = one.boot(6)
    run(one, other)
    for uuid in uuids:
        one.delete(uuid, soft=True)
    run(one, other)
    assert set(check([one, other]).values()) == {VmState.SOFT_DELETED}
    barrier = threading.Barrier(2)

    def reclaim(cell: Cell) -> int:
        barrier.wait()
        return cell.reclaim()

    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(reclaim, (one, other)))
    assert sum(found) == 6, found
    with one.database.read() as connection:
        assert connection.execute(sa.select(sa.func.count()).select_from(t.workflows)).scalar_one() == 6
    dead, survivor = (one, other) if found[0] else (other, one)
    dead.bus.close()
    clock.advance(host_agents.LEASE * 2)
    survivor.renew_leases()
    run(survivor)
    with survivor.database.read() as connection:
        check_books(connection)
        assert connection.execute(sa.select(t.instances.c.uuid).where(t.instances.c.deleted.is_(False))).all() == []
