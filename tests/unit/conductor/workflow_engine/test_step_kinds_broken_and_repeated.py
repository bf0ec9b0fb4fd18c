# SPDX-License-Identifier: Apache-2.0
"""Each workflow is broken at every point at which a process can die, and every message of it is repeated.

A point is just before or just after a transaction, or just before a message. After the break a new process starts on
the same files; the world at rest must then be the one that an undisturbed run leaves. Of the points each test takes
some, the same every time; with ``KILONOVA_EVERY_POINT`` in the environment it takes them all.
"""

import os
import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from kilonova.db import instance_lists
from kilonova.db.core import tables as t
from kilonova.messaging.messages import LiveMigrate
from kilonova.model.transitions import TRANSITIONS
from kilonova.scenario.model import SimulatedHost
from support.cell import Cell, Killed, MortalDatabase, host, new_cell
from support.manual_bus import ManualBus

Act = Callable[[Cell, list[str]], None]
HOSTS = (host("node1"), host("node2", failing_spawns=1), host("node3"))
#: Where things go wrong: no move to node2 succeeds, no guest can be copied away from node1.
BAD_HOSTS = (host("node1", failing_live_migrations=-1), host("node2", failing_moves=-1))

_POWER = ("start", "stop", "reboot", "hard-reboot")


class Death:
    """Kills the process at the given point, once."""

    def __init__(self) -> None:
        self.points_left: int | None = None
        self.seen = 0

    def __call__(self, _what: str) -> None:
        self.seen += 1
        if self.points_left is None:
            return
        if self.points_left == 0:
            raise Killed
        self.points_left -= 1


def stop(cell: Cell, uuid: str) -> None:
    cell.power(uuid, "stop")


def boot_one(cell: Cell, known: list[str]) -> None:
    known += cell.boot()


def boot_two_apart(cell: Cell, known: list[str]) -> None:
    known += cell.boot(2, group=cell.add_group("anti-affinity"))


def boot_where_a_spawn_fails(cell: Cell, known: list[str]) -> None:
    known += cell.boot(2, ignore_hosts=frozenset({"node1"}))


def boot_what_does_not_fit(cell: Cell, known: list[str]) -> None:
    known += cell.boot(13)


@dataclass(frozen=True)
class Case:
    """What is done to a cell in which ``before`` is over; ``before`` is done to a server that runs on node1."""

    act: Act
    before: Act | None = None
    hosts: tuple[SimulatedHost, ...] = HOSTS


def on_the_server(act: Callable[[Cell, str], None], *before: Callable[[Cell, str], None], **options: Any) -> Case:
    def first(cell: Cell, known: list[str]) -> None:
        for each in before:
            each(cell, known[0])
            cell.bus.run()

    def then(cell: Cell, known: list[str]) -> None:
        act(cell, known[0])

    return Case(then, first, **options)


def abort_while_copying(cell: Cell, uuid: str) -> None:
    cell.live_migrate(uuid)
    while not any(isinstance(message, LiveMigrate) for message in cell.bus.sent):
        cell.bus.step()
    cell.abort(uuid)


WORKFLOWS: dict[str, Case] = {
    "build": Case(boot_one),
    "build apart": Case(boot_two_apart),
    "build with a failing host": Case(boot_where_a_spawn_fails),
    "build without room": Case(boot_what_does_not_fit),
    "delete": on_the_server(Cell.delete),
    "stop": on_the_server(lambda cell, uuid: cell.power(uuid, "stop")),
    "reboot": on_the_server(lambda cell, uuid: cell.power(uuid, "reboot")),
    "hard-reboot": on_the_server(lambda cell, uuid: cell.power(uuid, "hard-reboot")),
    "start": on_the_server(lambda cell, uuid: cell.power(uuid, "start"), stop),
    "resize": on_the_server(Cell.resize),
    "resize on the same host": on_the_server(partial(Cell.resize, stays=True), hosts=HOSTS[:1]),
    "resize of a server that is off": on_the_server(Cell.resize, stop),
    "resize to a failing host": on_the_server(Cell.resize, hosts=BAD_HOSTS),
    "migrate": on_the_server(Cell.migrate),
    "confirm": on_the_server(Cell.confirm, Cell.resize),
    "confirm on the same host": on_the_server(Cell.confirm, partial(Cell.resize, stays=True), hosts=HOSTS[:1]),
    "revert": on_the_server(Cell.revert, Cell.resize),
    "revert on the same host": on_the_server(Cell.revert, partial(Cell.resize, stays=True), hosts=HOSTS[:1]),
    "revert of a server that was off": on_the_server(Cell.revert, stop, Cell.migrate),
    "live migrate": on_the_server(Cell.live_migrate),
    "live migrate from a failing host": on_the_server(Cell.live_migrate, hosts=(BAD_HOSTS[0], HOSTS[1])),
    "live migrate to a failing host": on_the_server(Cell.live_migrate, hosts=(HOSTS[0], BAD_HOSTS[1])),
    "abort": on_the_server(abort_while_copying),
    "delete what is resized": on_the_server(Cell.delete, Cell.resize),
}


def start(template: Path, folder: Path, name: str, death: Death, known: list[str], **options: object) -> Cell:
    """A cell in the state from which the workflow starts."""
    folder.mkdir()
    case = WORKFLOWS[name]
    cell = new_cell(
        template,
        folder,
        *case.hosts,
        bus=ManualBus(event=death, **options),
        database=MortalDatabase(f"sqlite:///{folder / 'kilonova.db'}"),
    )
    cell.database.event = death
    if case.before is not None:
        known += cell.boot(force_host="node1")
        cell.bus.run()
        case.before(cell, known)
    death.seen = 0
    return cell


def carry_out(cell: Cell, name: str, known: list[str]) -> None:
    WORKFLOWS[name].act(cell, known)
    cell.bus.run()


def outcome(cell: Cell) -> list[str]:
    return sorted(cell.check().values())


def some(name: str, count: int, at_most: int) -> list[int]:
    """Return which of so many points a test takes."""
    if "KILONOVA_EVERY_POINT" in os.environ:
        return list(range(count))
    return sorted(random.Random(name).sample(range(count), min(count, at_most)))


@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_kill_at_any_point_leaves_nothing_half_done(sqlite_template: Path, tmp_path: Path, name: str) -> None:
    undisturbed = start(sqlite_template, tmp_path / "whole", name, seen := Death(), known := [])
    before = outcome(undisturbed)
    carry_out(undisturbed, name, known)
    expected = outcome(undisturbed)
    undisturbed.database.close()
    assert seen.seen >= 5
    for point in some(name, seen.seen, 3):
        death, known = Death(), []
        cell = start(sqlite_template, tmp_path / str(point), name, death, known)
        death.points_left = point
        with pytest.raises(Killed):
            carry_out(cell, name, known)
        death.points_left = None
        with cell.database.read() as connection:
            is_journalled = connection.execute(sa.select(t.workflows)).first() is not None
        again = cell.restart()
        again.bus.run()
        # What is not in the journal has not begun, so its client got no answer, or is over.
        assert outcome(again) == expected or (not is_journalled and outcome(again) == before), f"killed at {point}"
        again.database.close()
        cell.database.close()


@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_process_that_recovers_from_a_kill_is_killed_too(sqlite_template: Path, tmp_path: Path, name: str) -> None:
    rng = random.Random(name)
    first, second, known = Death(), Death(), []
    cell = start(sqlite_template, tmp_path / "cell", name, first, known)
    first.points_left = rng.randrange(1, 5)
    with pytest.raises(Killed):
        carry_out(cell, name, known)
    mortal = MortalDatabase(str(cell.database.url))
    mortal.event = second
    second.points_left = rng.randrange(2, 12)
    with pytest.raises(Killed):
        cell.restart(ManualBus(event=second), mortal).bus.run()
    again = cell.restart()
    again.bus.run()
    again.check()
    for used in (again.database, cell.database, mortal):
        used.close()


@pytest.mark.parametrize("name", WORKFLOWS)
def test_every_message_comes_three_times_and_in_any_order(sqlite_template: Path, tmp_path: Path, name: str) -> None:
    plain = start(sqlite_template, tmp_path / "plain", name, Death(), known := [])
    carry_out(plain, name, known)
    order = random.Random(name)
    noisy = start(sqlite_template, tmp_path / "noisy", name, Death(), known := [], copies=3, order=order)
    carry_out(noisy, name, known)
    for reply in noisy.bus.replies * 2:
        noisy.conductor.handle(reply)
    noisy.bus.run()
    assert outcome(noisy) == outcome(plain)
    plain.database.close()
    noisy.database.close()


def moments(template: Path, folder: Path, name: str) -> list[int]:
    """After how many pieces of work a test interrupts."""
    cell = start(template, folder / "whole", name, Death(), known := [])
    WORKFLOWS[name].act(cell, known)
    count = 1
    while cell.bus.step():
        count += 1
    cell.database.close()
    return some(f"{name} moments", count, 2)


@pytest.mark.parametrize("name", WORKFLOWS)
def test_deleted_at_any_moment(sqlite_template: Path, tmp_path: Path, name: str) -> None:
    for moment in moments(sqlite_template, tmp_path, name):
        cell = start(sqlite_template, tmp_path / str(moment), name, Death(), known := [])
        WORKFLOWS[name].act(cell, known)
        for _ in range(moment):
            cell.bus.step()
        for uuid in known:
            if cell.find(uuid) is not None:
                cell.delete(uuid)
        cell.bus.run()
        assert outcome(cell) == []
        cell.database.close()


@pytest.mark.parametrize("name", [name for name in WORKFLOWS if name.startswith("live")])
def test_aborted_at_any_moment(sqlite_template: Path, tmp_path: Path, name: str) -> None:
    for moment in moments(sqlite_template, tmp_path, name):
        cell = start(sqlite_template, tmp_path / str(moment), name, Death(), known := [])
        WORKFLOWS[name].act(cell, known)
        for _ in range(moment):
            cell.bus.step()
        cell.abort(known[0])
        cell.bus.run()
        assert outcome(cell) == ["active"]
        cell.database.close()


@pytest.mark.parametrize("seed", range(8))
def test_a_crowd_in_any_order(sqlite_template: Path, tmp_path: Path, seed: int) -> None:
    """Servers come, go, stop and reboot, some spawns fail, one host is cut off now and then, the process dies twice."""
    rng = random.Random(seed)
    hosts = [host(f"node{n}", vcpus=3, failing_spawns=rng.choice([0, 0, 1, 2])) for n in range(4)]
    cell = new_cell(sqlite_template, tmp_path, *hosts, bus=ManualBus(copies=rng.choice([1, 2]), order=rng))
    groups = [cell.add_group(policy) for policy in ("affinity", "anti-affinity", "soft-anti-affinity")]
    cells = [cell]
    for outcome in range(60):
        known = _all(cell)
        match rng.randrange(6):
            case 0 | 1:
                cell.boot(rng.choice([1, 1, 2, 3]), group=rng.choice([None, None, *groups]))
            case 2 if known:
                cell.delete(rng.choice(known))
            case 3 if known:
                one = cell.instance(rng.choice(known))
                allowed = [kind for kind in _POWER if one.vm_state in TRANSITIONS[kind].states]
                if one.task_state is None and one.launched_at is not None and allowed:
                    cell.power(one.uuid, rng.choice(allowed))
            case 4:
                if cell.bus.cut_off:
                    cell.reconnect()
                else:
                    cell.bus.cut_off = {rng.choice(hosts).name}
            case _:
                for _ in range(rng.randrange(12)):
                    cell.bus.step()
        if outcome in {20, 40}:
            cell = cell.restart(ManualBus(copies=2, order=rng))
            cells.append(cell)
    cell.bus.run()
    cell.reconnect()  # what was deleted or moved off a host that could not be reached goes when that host is back
    cell.work_off()
    cell.check()
    for used in cells:
        used.database.close()


def _all(cell: Cell) -> list[str]:
    with cell.database.read() as connection:
        return [instance.uuid for instance in instance_lists.list_page(connection, instance_lists.InstanceQuery())]
