# SPDX-License-Identifier: Apache-2.0
"""A destination that fails a move is passed over, and the next best host is tried."""

from collections.abc import Callable

import pytest

from kilonova.db import server_migrations, workflows
from kilonova.db.server_migrations import MigrationQuery
from kilonova.model.instance import PowerState, VmState
from support.cell import Cell, NewCell, asker, host

BEGIN: dict[str, Callable[..., None]] = {
    "resize": Cell.resize,
    "migrate": Cell.migrate,
    "live-migrate": Cell.live_migrate,
}


def booted(cell_of: NewCell, failing: int) -> tuple[Cell, str]:
    """A server on ``home``; of the others the best ones fail every move."""
    sizes = (65536, 32768, 16384, 8192)
    others = [host(f"node{number}", memory_mib=size, failing_moves=-1) for number, size in enumerate(sizes)]
    good = [host(each.name, memory_mib=each.memory_mib) for each in others[failing:]]
    cell = cell_of(host("home"), *others[:failing], *good)
    (uuid,) = cell.boot(force_host="home")
    cell.bus.run()
    return cell, uuid


def migrations(cell: Cell, uuid: str) -> list[tuple[str, str | None]]:
    with cell.database.read() as connection:
        found = server_migrations.list_page(connection, MigrationQuery(instance_uuid=uuid))
    return [(each.status.value, each.dest_host) for each in found]


@pytest.mark.parametrize("kind", BEGIN)
def test_the_next_best_host_is_tried(cell_of: NewCell, kind: str) -> None:
    cell, uuid = booted(cell_of, 2)
    BEGIN[kind](cell, uuid)
    cell.work_off()
    server = cell.instance(uuid)
    settled = (VmState.ACTIVE, "completed") if kind == "live-migrate" else (VmState.RESIZED, "finished")
    assert (server.vm_state, server.host) == (settled[0], "node2")
    assert migrations(cell, uuid) == [(settled[1], "node2")]
    cell.check()


@pytest.mark.parametrize("kind", BEGIN)
def test_it_ends_after_as_many_attempts_as_builds_have(cell_of: NewCell, kind: str) -> None:
    cell, uuid = booted(cell_of, 3)
    BEGIN[kind](cell, uuid)
    cell.work_off()
    server = cell.instance(uuid)
    assert (server.host, server.task_state, server.power_state) == ("home", None, PowerState.RUNNING)
    assert server.vm_state is (VmState.ACTIVE if kind == "live-migrate" else VmState.ERROR)
    assert [status for status, _ in migrations(cell, uuid)] == ["error"]
    cell.check()


@pytest.mark.parametrize("kind", ["migrate", "live-migrate"])
def test_a_host_that_was_asked_for_is_the_only_one(cell_of: NewCell, kind: str) -> None:
    cell, uuid = booted(cell_of, 1)
    BEGIN[kind](cell, uuid, "node0")
    cell.work_off()
    assert cell.instance(uuid).host == "home"
    assert [status for status, _ in migrations(cell, uuid)] == ["error"]
    cell.check()


def test_the_fault_says_what_was_wrong_with_the_last_one(cell_of: NewCell) -> None:
    cell = cell_of(host("home"), host("node0", failing_moves=-1))
    (uuid,) = cell.boot(force_host="home")
    cell.bus.run()
    cell.resize(uuid)
    cell.work_off()
    fault = cell.instance(uuid).fault
    assert fault is not None
    assert fault.message.startswith("No valid host was found.")
    assert fault.message.endswith("(after a failed move: Simulated failure to move guest instance-00000001.)")
    cell.check()


@pytest.mark.parametrize("steps", range(1, 9))
@pytest.mark.parametrize("kind", [*BEGIN, "build", "evacuate"])
def test_a_state_that_is_reset_meanwhile_leaves_nothing_stuck(cell_of: NewCell, kind: str, steps: int) -> None:
    """A move goes on with the next host, as it does to its end where none fails; a build ends."""
    if kind == "build":
        cell = cell_of(host("node0", memory_mib=65536, failing_spawns=-1), host("node1"))
        (uuid,) = cell.boot()
    elif kind == "evacuate":
        cell = cell_of(host("home"), host("node0", memory_mib=65536, failing_spawns=-1), host("node1"))
        (uuid,) = cell.boot(force_host="home")
        cell.bus.run()
        cell.evacuate(uuid)
    else:
        cell, uuid = booted(cell_of, 1)
        BEGIN[kind](cell, uuid)
    for _ in range(steps):
        cell.bus.step()
    cell.conductor.operations.states.reset(cell.instance(uuid), VmState.ACTIVE, asker("req-reset"))
    cell.work_off()
    with cell.database.read() as connection:
        assert not workflows.of_instance(connection, uuid), "nothing is left, nor stuck"
    assert cell.instance(uuid).task_state is None
    cell.delete(uuid)
    cell.work_off()
    cell.check()
