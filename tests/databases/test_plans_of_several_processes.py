# SPDX-License-Identifier: Apache-2.0
"""Control processes that share a server database apply a plan: one at a time, and another one after its death."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kilonova.db import host_agents, plans
from kilonova.db.database import Database
from kilonova.model.instance import VmState
from kilonova.model.move_plan import How
from kilonova.model.saved_plan import MoveState, PlanState
from kilonova.planning.drain import DrainRequest
from kilonova.planning.plan import Limits
from support.applied_plans import become, migrations, moves_of_plan, plan_of, runner_of, save_drain
from support.cell import Cell, host, start_cell
from support.manual_bus import ManualBus
from support.samples import sampled

pytestmark = pytest.mark.parametrize("kind", ["postgresql", "mariadb"], indirect=True)


@pytest.fixture
def start(database_url: str, tmp_path: Path) -> Iterator[Callable[..., Cell]]:
    """Starts a control process with the hosts that are named."""
    opened: list[Database] = []

    def process(folder: str, *names: str) -> Cell:
        opened.append(Database(database_url))
        place = tmp_path / folder
        place.mkdir()
        return start_cell(place, tuple(host(name) for name in names), bus=ManualBus(), database=opened[-1])

    yield process
    for database in opened:
        database.close()


def run(*cells: Cell) -> None:
    """Let the workflows of processes work until nothing is left to do."""
    busy = True
    while busy:
        busy = False
        for cell in cells:
            busy = bool(cell.conductor.process_lease.take_handed_over()) or bool(cell.bus.waiting["work"]) or busy
            cell.bus.run()


def saved(cell: Cell) -> tuple[list[str], str]:
    servers = cell.boot(3, force_host="node1")
    cell.bus.run()
    plan = save_drain(cell, DrainRequest(frozenset({"node1"}), How.EITHER, Limits(per_wave=1)))
    become(cell, plan, PlanState.RUNNING)
    return servers, plan


def require_drained(cell: Cell, servers: list[str], plan: str) -> None:
    states = cell.check()
    assert {states[each] for each in servers} == {VmState.ACTIVE}
    assert {cell.instance(each).host for each in servers} <= {"node2", "node3"}
    assert plan_of(cell, plan).state is PlanState.DONE
    assert [move.state for move in moves_of_plan(cell, plan)] == [MoveState.DONE] * 3
    assert all(statuses == ["completed"] for statuses in migrations(cell).values())


def test_one_process_applies_a_plan_while_others_look_on(start: Callable[..., Cell]) -> None:
    hosts, *others = start("hosts", "node1", "node2", "node3"), start("two"), start("three")
    servers, plan = saved(hosts)
    rng = random.Random(3)
    cells = [hosts, *others]
    runners = {cell.conductor.owner: runner_of(cell) for cell in cells}
    owners = set()
    for _ in range(60):
        runners[rng.choice(cells).conductor.owner].look()
        found = plan_of(hosts, plan)
        owners.add(found.owner)
        run(*rng.sample(cells, 3))
        if found.state.is_final:
            break
    require_drained(hosts, servers, plan)
    assert len(owners - {None}) == 1


@pytest.mark.parametrize("looks", sampled([1, 2, 3, 4], sample=[2]))
def test_another_process_goes_on_after_a_death(start: Callable[..., Cell], looks: int) -> None:
    hosts, dying = start("hosts", "node1", "node2", "node3"), start("dying")
    servers, plan = saved(hosts)
    last = runner_of(dying)
    for _ in range(looks):
        last.look()
        run(hosts)  # workflows that are not handed over stay with the dying process
    assert runner_of(hosts).look() == 0
    hosts.database.write(lambda tx: host_agents.end_leases(tx, [dying.conductor.owner]))
    hosts.renew_leases()
    run(hosts)
    runner = runner_of(hosts)
    for _ in range(40):
        if not runner.look():
            break
        run(hosts)
    last.look()  # the other process was only frozen
    require_drained(hosts, servers, plan)


def test_a_process_that_stops_gives_its_plans_away(start: Callable[..., Cell]) -> None:
    hosts, stopping = start("hosts", "node1", "node2", "node3"), start("stopping")
    servers, plan = saved(hosts)
    first = runner_of(stopping)
    first.look()
    assert plan_of(hosts, plan).owner == stopping.conductor.owner
    first.stop()
    with hosts.database.read() as connection:
        assert plans.free(connection, hosts.database.clock.now()) == (plan,)
    runner = runner_of(hosts)
    for _ in range(40):
        run(stopping, hosts)
        if not runner.look():
            break
    require_drained(hosts, servers, plan)
