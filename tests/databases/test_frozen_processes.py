# SPDX-License-Identifier: Apache-2.0
"""A control process that is stopped for longer than its lease and comes back: what others did meanwhile holds."""

import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from kilonova.db import host_agents
from kilonova.db.core import tables as t
from kilonova.db.database import Database
from kilonova.lease import Lease
from kilonova.messaging.messages import StepReply
from kilonova.model.instance import PowerState, VmState
from support.cell import Cell, host, start_cell
from support.manual_bus import ManualBus
from support.processes import pass_time
from support.world import check_world, guests_on_disk

pytestmark = pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
OVER = host_agents.LEASE + timedelta(seconds=1)


class Clock:
    """The present of the database and of all processes, which a test can move on."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._ahead = timedelta()

    def advance(self, passed: timedelta) -> None:
        self._ahead += passed
        pass_time(self._database, passed)

    def seconds(self) -> float:
        return time.monotonic() + self._ahead.total_seconds()


@pytest.fixture
def clock(database_url: str) -> Iterator[Clock]:
    database = Database(database_url)
    yield Clock(database)
    database.close()


@pytest.fixture
def start(database_url: str, tmp_path: Path, clock: Clock) -> Iterator[Callable[..., Cell]]:
    """Starts a control process with the hosts that are named."""
    opened: list[Database] = []

    def process(*names: str) -> Cell:
        opened.append(Database(database_url))
        folder = tmp_path / "-".join(names)
        folder.mkdir(exist_ok=True)
        hosts = tuple(host(name) for name in names)
        lease = Lease(host_agents.LEASE, clock=clock.seconds)
        return start_cell(folder, hosts, bus=ManualBus(), database=opened[-1], lease=lease)

    yield process
    for database in opened:
        database.close()


def run(*cells: Cell) -> None:
    """Let processes work until none has anything to do."""
    busy = True
    while busy:
        busy = False
        for cell in cells:
            busy = bool(cell.conductor.process_lease.take_handed_over()) or bool(cell.bus._work) or busy
            cell.bus.run()


def check(*cells: Cell) -> dict[str, str]:
    guests: dict[str, set[str]] = {}
    for cell in cells:
        guests |= guests_on_disk(cell.folder / "hypervisors")
    with cells[0].database.read() as connection:
        assert connection.execute(sa.select(t.workflows)).all() == []
        return check_world(connection, guests)


def test_what_others_deleted_is_gone_where_it_ran(start: Callable[..., Cell], clock: Clock) -> None:
    frozen, other = start("a"), start("b")
    (uuid,) = frozen.boot(force_host="a")
    run(frozen, other)
    clock.advance(OVER)
    other.renew_leases()
    other.delete(uuid)
    run(other)
    assert other.find(uuid) is None
    frozen.renew_leases()
    run(frozen, other)
    assert check(frozen, other) == {}


@pytest.mark.parametrize("steps", range(5))
def test_what_others_built_elsewhere_runs_once(start: Callable[..., Cell], clock: Clock, steps: int) -> None:
    """The process is stopped after any number of its messages, and goes on where it was when it comes back."""
    frozen, other = start("a"), start("b")
    (uuid,) = frozen.boot(ignore_hosts=frozenset({"b"}) if steps == 4 else frozenset())
    for _ in range(steps):
        frozen.bus.step()
    clock.advance(OVER)
    other.renew_leases()
    run(other)
    # What had been under way when it was stopped comes first, then it notices.
    frozen.bus.run()
    frozen.renew_leases()
    run(frozen, other)
    states = check(frozen, other)
    assert set(states) == {uuid}


def test_a_spawn_that_takes_longer_than_the_lease_leaves_nothing(start: Callable[..., Cell], clock: Clock) -> None:
    frozen, other = start("a"), start("b")
    (uuid,) = frozen.boot(force_host="a")
    frozen.bus.step()  # claimed and sent

    def stopped(_seconds: float) -> None:
        clock.advance(OVER)
        other.renew_leases()
        other.delete(uuid)
        run(other)
        frozen.renew_leases()  # which finds no guest yet

    driver = frozen.drivers["a"]
    driver.hypervisor.host = host("a", spawn_delay_s=1.0)
    driver.hypervisor.sleep = stopped
    run(frozen, other)
    assert check(frozen, other) == {}


def test_a_guest_that_appears_just_after_the_report_does_not_stay(start: Callable[..., Cell], clock: Clock) -> None:
    """The agents have reported their guests, and this process may not act yet."""
    frozen, other = start("a"), start("b")
    (uuid,) = frozen.boot(force_host="a")
    frozen.bus.step()  # claimed and sent
    late = frozen.bus.sent[0]
    clock.advance(OVER)
    other.renew_leases()
    other.delete(uuid)
    run(other)
    announce = frozen.announce

    def report_and_then_run() -> None:
        announce()
        frozen.drivers["a"].spawn(late.guest)  # type: ignore[union-attr]
        frozen.conductor.handle(StepReply(late.step, "a", uuid, power_state=PowerState.RUNNING))

    frozen.announce = report_and_then_run  # type: ignore[method-assign]
    frozen.renew_leases()
    run(frozen, other)
    assert check(frozen, other) == {}


def test_while_its_lease_has_lapsed_a_process_tells_its_hosts_nothing(start: Callable[..., Cell], clock: Clock) -> None:
    frozen, other = start("a"), start("b")
    uuids = frozen.boot(2, ignore_hosts=frozenset({"b"}))
    frozen.bus.step()
    sent = len(frozen.bus.sent)
    assert sent == 2
    clock.advance(OVER)
    frozen.bus.run()
    assert frozen.drivers["a"].list_guests() == {}
    frozen.renew_leases()
    run(frozen, other)
    assert check(frozen, other) == dict.fromkeys(uuids, VmState.ACTIVE)


def test_a_delete_that_finds_nobody_does_not_race_with_the_one_who_returns(
    start: Callable[..., Cell], clock: Clock
) -> None:
    """The process is back between "nobody has this host" and "deleted"; it has reported the guest as still owned."""
    frozen, other = start("a"), start("b")
    (uuid,) = frozen.boot(force_host="a")
    run(frozen, other)
    clock.advance(OVER)
    other.renew_leases()
    original = other.conductor.runner._stepper._hand_over

    def slow(*args: object) -> bool:
        given = original(*args)  # type: ignore[arg-type]
        if not given:
            other.conductor.runner._stepper._hand_over = original  # type: ignore[method-assign]
            frozen.renew_leases()
        return given

    other.conductor.runner._stepper._hand_over = slow  # type: ignore[method-assign, assignment]
    other.delete(uuid)
    run(other, frozen)
    assert check(frozen, other) == {}


def test_who_takes_hosts_takes_the_work_there_at_once(start: Callable[..., Cell]) -> None:
    dead, other = start("a"), start("b")
    (uuid,) = dead.boot(force_host="a")
    run(dead, other)
    dead.delete(uuid)  # accepted, and never carried out
    successor = start("a")
    run(successor, other)
    assert check(successor, other) == {}


def test_a_guest_of_which_nothing_is_known_is_kept(
    start: Callable[..., Cell], caplog: pytest.LogCaptureFixture
) -> None:
    cell = start("a")
    (uuid,) = cell.boot()
    run(cell)
    with cell.database._engines.writer.begin() as connection:
        for table in (t.instance_faults, t.instance_tags):
            connection.execute(sa.delete(table))
        connection.execute(sa.delete(t.instances))
    again = start("a")
    assert set(again.drivers["a"].list_guests()) == {uuid}
    assert f"guest {uuid} belongs to no known server" in caplog.text
