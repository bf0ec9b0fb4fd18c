# SPDX-License-Identifier: Apache-2.0
"""A plan is killed at every point of its life: before and after each transaction and before each message.

Another process goes on. In the end every server has moved exactly once. `make test` tries a sample of the points,
`make plans` all of them.
"""

import random
from pathlib import Path

import pytest

from kilonova.model.instance import VmState
from kilonova.model.move_plan import How
from kilonova.model.saved_plan import MoveState, PlanState
from kilonova.planning.drain import DrainRequest
from kilonova.planning.plan import Limits
from support.applied_plans import apply, become, migrations, moves_of_plan, plan_of, save_drain
from support.cell import Cell, Killed, MortalDatabase, host, new_cell
from support.manual_bus import ManualBus
from support.samples import sampled

HOSTS = (host("node1"), host("node2"), host("node3"))


class Death:
    """Kills the process when it has passed ``at`` points; None: never. ``seen``: number of points passed."""

    def __init__(self) -> None:
        self.at: int | None = None
        self.seen = 0

    def __call__(self, _what: str) -> None:
        self.seen += 1
        if self.at is not None and self.seen > self.at:
            raise Killed


def start(template: Path, folder: Path, death: Death) -> tuple[Cell, list[str], str]:
    """Start a cell with a stopped server and two running ones on node1, and a saved plan of two waves."""
    folder.mkdir()
    database = MortalDatabase(f"sqlite:///{folder / 'kilonova.db'}")
    cell = new_cell(template, folder, *HOSTS, bus=ManualBus(event=death), database=database)
    database.event = death
    servers = cell.boot(3, force_host="node1")
    cell.bus.run()
    cell.power(servers[0], "stop")
    cell.bus.run()
    plan = save_drain(cell, DrainRequest(frozenset({"node1"}), How.EITHER, Limits(per_wave=2)))
    assert {move.wave for move in moves_of_plan(cell, plan)} == {0, 1}
    death.seen = 0
    return cell, servers, plan


def drain(cell: Cell, plan: str) -> None:
    become(cell, plan, PlanState.RUNNING)
    apply(cell)


def go_on(cell: Cell, plan: str, death: Death) -> Cell:
    """Start another process, and let it go on; return it."""
    mortal = MortalDatabase(str(cell.database.url))
    mortal.event = death
    again = cell.restart(ManualBus(event=death), mortal)
    again.bus.run()
    if plan_of(again, plan).state is PlanState.READY:  # the client got no answer, and asks again
        become(again, plan, PlanState.RUNNING)
    apply(again)
    return again


def require_drained(cell: Cell, servers: list[str], plan: str) -> None:
    require_whole(cell, servers)
    assert {cell.instance(each).host for each in servers} <= {"node2", "node3"}
    assert plan_of(cell, plan).state is PlanState.DONE, plan_of(cell, plan)
    assert [move.state for move in moves_of_plan(cell, plan)] == [MoveState.DONE] * 3
    statuses = migrations(cell)
    assert [statuses[each] for each in servers] == [["confirmed"], ["completed"], ["completed"]]


def require_whole(cell: Cell, servers: list[str]) -> None:
    states = cell.check()
    assert [states[each] for each in servers] == [VmState.STOPPED, VmState.ACTIVE, VmState.ACTIVE]


def points(template: Path, folder: Path) -> int:
    """Return the number of points that an undisturbed plan passes."""
    cell, servers, plan = start(template, folder, seen := Death())
    drain(cell, plan)
    require_drained(cell, servers, plan)
    cell.database.close()
    return seen.seen


def test_another_process_goes_on_after_a_kill_at_any_point(sqlite_template: Path, tmp_path: Path) -> None:
    count = points(sqlite_template, tmp_path / "whole")
    assert count > 50
    every = range(count)
    for point in sampled(every, sample=random.Random(47).sample(every, 8)):
        cell, servers, plan = start(sqlite_template, tmp_path / str(point), death := Death())
        death.at = point
        with pytest.raises(Killed):
            drain(cell, plan)
        death.at = None
        again = go_on(cell, plan, Death())
        require_drained(again, servers, plan)
        again.database.close()
        cell.database.close()


def test_a_process_that_goes_on_is_killed_too(sqlite_template: Path, tmp_path: Path) -> None:
    rng = random.Random(48)
    count = points(sqlite_template, tmp_path / "whole")
    for number in range(sampled(60, sample=3)):
        cell, servers, plan = start(sqlite_template, tmp_path / str(number), death := Death())
        death.at = rng.randrange(count)
        with pytest.raises(Killed):
            drain(cell, plan)
        death.at = None
        second = Death()
        second.at = rng.randrange(count)
        try:
            again = go_on(cell, plan, second)
        except Killed:
            again = go_on(cell, plan, Death())
        require_drained(again, servers, plan)
        again.database.close()
        cell.database.close()


@pytest.mark.parametrize("asked", [PlanState.PAUSED, PlanState.CANCELLING])
def test_a_pause_or_cancel_survives_a_kill(sqlite_template: Path, tmp_path: Path, asked: PlanState) -> None:
    """The process is killed at a random point; then the operator asks for the pause or the cancel."""
    rng = random.Random(asked.value)
    for number in range(sampled(60, sample=3)):
        cell, servers, plan = start(sqlite_template, tmp_path / str(number), death := Death())
        become(cell, plan, PlanState.RUNNING)
        death.at = death.seen + rng.randrange(5, 60)
        with pytest.raises(Killed):
            apply(cell)
        death.at = None
        again = cell.restart()
        become(again, plan, asked)
        again.bus.run()
        if asked is PlanState.PAUSED:
            with pytest.raises(AssertionError, match="does not end"):
                apply(again, rounds=10)
            require_whole(again, servers)
            assert {move.state for move in moves_of_plan(again, plan)} <= {MoveState.DONE, MoveState.PLANNED}
            become(again, plan, PlanState.RUNNING)
            apply(again)
            require_drained(again, servers, plan)
        else:
            apply(again)
            require_whole(again, servers)
            assert plan_of(again, plan).state is PlanState.CANCELLED
            assert {move.state for move in moves_of_plan(again, plan)} <= {MoveState.DONE, MoveState.CANCELLED}
        again.database.close()
        cell.database.close()
