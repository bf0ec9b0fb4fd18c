# SPDX-License-Identifier: Apache-2.0
"""Each workflow is broken at every point at which a process can die, and every message of it is repeated.

A point is just before or just after a transaction, or just before a message. After the break a new process starts on
the same files; the world at rest must then be the one that an undisturbed run leaves.
"""

import itertools
import random
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa

from kilonova.conductor.workflows.power import POWER
from kilonova.db import instances
from kilonova.db import tables as t
from kilonova.model.transitions import TRANSITIONS
from support.cell import Cell, Killed, MortalDatabase, host, new_cell
from support.manual_bus import ManualBus

Act = Callable[[Cell, list[str]], None]
HOSTS = (host("node1"), host("node2", failing_spawns=1), host("node3"))


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


def boot_one(cell: Cell, known: list[str]) -> None:
    known += cell.boot()
    cell.bus.run()


def boot_two_apart(cell: Cell, known: list[str]) -> None:
    known += cell.boot(2, group=cell.add_group("anti-affinity"))
    cell.bus.run()


def boot_where_a_spawn_fails(cell: Cell, known: list[str]) -> None:
    known += cell.boot(2, ignore_hosts=frozenset({"node1"}))
    cell.bus.run()


def boot_what_does_not_fit(cell: Cell, known: list[str]) -> None:
    known += cell.boot(13)
    cell.bus.run()


def on_a_running_server(act: Act) -> Act:
    def prepared(cell: Cell, known: list[str]) -> None:
        act(cell, known)
        cell.bus.run()

    prepared.needs_a_server = True  # type: ignore[attr-defined]
    return prepared


WORKFLOWS: dict[str, Act] = {
    "build": boot_one,
    "build apart": boot_two_apart,
    "build with a failing host": boot_where_a_spawn_fails,
    "build without room": boot_what_does_not_fit,
    "delete": on_a_running_server(lambda cell, known: cell.delete(known[0])),
    "stop": on_a_running_server(lambda cell, known: cell.power(known[0], "stop")),
    "reboot": on_a_running_server(lambda cell, known: cell.power(known[0], "reboot")),
    "hard-reboot": on_a_running_server(lambda cell, known: cell.power(known[0], "hard-reboot")),
    "start": on_a_running_server(lambda cell, known: cell.power(known[0], "start")),
}


def start(template: Path, folder: Path, name: str, death: Death, known: list[str], **options: object) -> Cell:
    """A cell in the state from which the workflow starts."""
    folder.mkdir()
    cell = new_cell(
        template,
        folder,
        *HOSTS,
        bus=ManualBus(event=death, **options),
        database=MortalDatabase(f"sqlite:///{folder / 'kilonova.db'}"),
    )
    cell.database.event = death
    if hasattr(WORKFLOWS[name], "needs_a_server"):
        known += cell.boot(force_host="node1")
        cell.bus.run()
        if name == "start":
            cell.power(known[0], "stop")
            cell.bus.run()
    death.seen = 0
    return cell


def outcome(cell: Cell) -> list[str]:
    return sorted(cell.check().values())


@pytest.mark.parametrize("name", WORKFLOWS)
def test_killed_anywhere(sqlite_template: Path, tmp_path: Path, name: str) -> None:
    undisturbed = start(sqlite_template, tmp_path / "whole", name, Death(), known := [])
    before = outcome(undisturbed)
    WORKFLOWS[name](undisturbed, known)
    expected = outcome(undisturbed)
    undisturbed.database.close()
    for point in itertools.count():
        death, known = Death(), []
        cell = start(sqlite_template, tmp_path / str(point), name, death, known)
        death.points_left = point
        try:
            WORKFLOWS[name](cell, known)
        except Killed:
            death.points_left = None
        else:
            cell.database.close()
            break
        with cell.database.read() as connection:
            is_journalled = connection.execute(sa.select(t.workflows)).first() is not None
        again = cell.restart()
        again.bus.run()
        # What is not in the journal has not begun, so its client got no answer, or is over.
        assert outcome(again) == expected or (not is_journalled and outcome(again) == before), f"killed at {point}"
        again.database.close()
        cell.database.close()
    assert point >= 5


@pytest.mark.parametrize("name", WORKFLOWS)
def test_killed_twice(sqlite_template: Path, tmp_path: Path, name: str) -> None:
    """The process that mends is killed as well."""
    rng = random.Random(name)
    for attempt in range(3):
        death, known = Death(), []
        cell = start(sqlite_template, tmp_path / str(attempt), name, death, known)
        death.points_left = rng.randrange(1, 8)
        with pytest.raises(Killed):
            WORKFLOWS[name](cell, known)
            raise Killed
        second = Death()
        mortal = MortalDatabase(str(cell.database.url))
        mortal.event = second
        second.points_left = rng.randrange(2, 14)
        try:
            halfway = cell.restart(ManualBus(event=second))
            halfway.bus.run()
            halfway.database.close()
        except Killed:
            pass
        again = cell.restart()
        again.bus.run()
        again.check()
        for used in (again, cell):
            used.database.close()
        mortal.close()


@pytest.mark.parametrize("name", WORKFLOWS)
@pytest.mark.parametrize("seed", range(2))
def test_every_message_comes_three_times_and_in_any_order(
    sqlite_template: Path, tmp_path: Path, name: str, seed: int
) -> None:
    plain = start(sqlite_template, tmp_path / "plain", name, Death(), known := [])
    WORKFLOWS[name](plain, known)
    noisy = start(sqlite_template, tmp_path / "noisy", name, Death(), known := [], copies=3, order=random.Random(seed))
    WORKFLOWS[name](noisy, known)
    for reply in noisy.bus.replies * 2:
        noisy.conductor.handle(reply)
    noisy.bus.run()
    assert outcome(noisy) == outcome(plain)
    plain.database.close()
    noisy.database.close()


@pytest.mark.parametrize("seed", range(8))
def test_a_crowd_in_any_order(sqlite_template: Path, tmp_path: Path, seed: int) -> None:
    """Servers come, go, stop and reboot, some spawns fail, one host is cut off now and then, the process dies twice."""
    rng = random.Random(seed)
    hosts = [host(f"node{n}", vcpus=3, failing_spawns=rng.choice([0, 0, 1, 2])) for n in range(4)]
    cell = new_cell(sqlite_template, tmp_path, *hosts, bus=ManualBus(copies=rng.choice([1, 2]), order=rng))
    groups = [cell.add_group(policy) for policy in ("affinity", "anti-affinity", "soft-anti-affinity")]
    cells = [cell]
    for turn in range(60):
        known = _all(cell)
        match rng.randrange(6):
            case 0 | 1:
                cell.boot(rng.choice([1, 1, 2, 3]), group=rng.choice([None, None, *groups]))
            case 2 if known:
                cell.delete(rng.choice(known))
            case 3 if known:
                one = cell.instance(rng.choice(known))
                allowed = [kind for kind in POWER if one.vm_state in TRANSITIONS[kind].states]
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
        if turn in {20, 40}:
            cell = cell.restart(ManualBus(copies=2, order=rng))
            cells.append(cell)
    cell.bus.run()
    cell.reconnect()  # what was deleted or moved off a host that could not be reached goes when that host is back
    cell.check()
    for used in cells:
        used.database.close()


def _all(cell: Cell) -> list[str]:
    with cell.database.read() as connection:
        return [instance.uuid for instance in instances.list_page(connection, instances.InstanceQuery())]
