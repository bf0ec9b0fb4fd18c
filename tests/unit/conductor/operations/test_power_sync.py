# SPDX-License-Identifier: Apache-2.0
"""What guests do by themselves shows on their servers, and no report that an action has overtaken does harm."""

import random
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from kilonova.compute.power_reports import PowerReporting, PowerReports
from kilonova.compute.virt.fake.guests import GuestFile
from kilonova.conductor.operations.power_sync import Remedy, remedy
from kilonova.db.power_states import Recorded
from kilonova.messaging.messages import AskPowerStates, StartGuest, StepId, StopGuest
from kilonova.model.instance import PowerState as P
from kilonova.model.instance import TaskState
from kilonova.model.instance import VmState as S
from support.cell import Cell, NewCell, host, new_cell
from support.manual_bus import ManualBus

_STEP = StepId("", "power states", 0)


@pytest.fixture
def cell(cell_of: NewCell) -> Cell:
    return cell_of(host("node1", vcpus=32, memory_mib=32768), host("node2"))


def boot(cell: Cell, state: S = S.ACTIVE) -> str:
    (uuid,) = cell.boot(force_host="node1")
    cell.bus.run()
    for kind in {S.ACTIVE: [], S.STOPPED: ["stop"], S.PAUSED: ["pause"], S.SUSPENDED: ["suspend"]}[state]:
        cell.power(uuid, kind)
        cell.bus.run()
    return uuid


def outside(cell: Cell, uuid: str, state: P, name: str = "node1") -> None:
    """Somebody at the host does something to a guest."""
    file = GuestFile(name, cell.folder / "hypervisors" / f"{name}.json")
    file.put(uuid, guest=None if state is P.NOSTATE else replace(file.guest(uuid), state=state))


def reports(cell: Cell, **how: object) -> PowerReports:
    return PowerReports(cell.bus, cell.agents, PowerReporting(**how))  # type: ignore[arg-type]


def shown(cell: Cell, uuid: str) -> tuple[S, TaskState | None, P]:
    server = cell.instance(uuid)
    return server.vm_state, server.task_state, server.power_state


#: vm_state, what the hypervisor says → the server afterwards, and its guest. Source: spec LIFECYCLE §6.
_OUTCOMES = {
    (S.ACTIVE, P.SHUTDOWN): (S.STOPPED, P.SHUTDOWN),
    (S.ACTIVE, P.CRASHED): (S.STOPPED, P.SHUTDOWN),
    (S.ACTIVE, P.SUSPENDED): (S.STOPPED, P.SHUTDOWN),
    (S.ACTIVE, P.PAUSED): (S.ACTIVE, P.PAUSED),
    (S.ACTIVE, P.NOSTATE): (S.ACTIVE, P.NOSTATE),
    (S.ACTIVE, P.RUNNING): (S.ACTIVE, P.RUNNING),
    (S.STOPPED, P.RUNNING): (S.STOPPED, P.SHUTDOWN),
    (S.STOPPED, P.PAUSED): (S.STOPPED, P.SHUTDOWN),
    (S.STOPPED, P.SUSPENDED): (S.STOPPED, P.SHUTDOWN),
    (S.STOPPED, P.CRASHED): (S.STOPPED, P.CRASHED),
    (S.STOPPED, P.NOSTATE): (S.STOPPED, P.NOSTATE),
    (S.PAUSED, P.SHUTDOWN): (S.STOPPED, P.SHUTDOWN),
    (S.PAUSED, P.CRASHED): (S.STOPPED, P.SHUTDOWN),
    (S.PAUSED, P.RUNNING): (S.PAUSED, P.RUNNING),
    (S.PAUSED, P.NOSTATE): (S.PAUSED, P.NOSTATE),
    (S.SUSPENDED, P.SHUTDOWN): (S.SUSPENDED, P.SHUTDOWN),
    (S.SUSPENDED, P.RUNNING): (S.SUSPENDED, P.RUNNING),
}


@pytest.mark.parametrize("told", ["report", "event"])
def test_who_wins(cell: Cell, told: str) -> None:
    uuids = {case: boot(cell, case[0]) for case in _OUTCOMES}
    for (_, said), uuid in uuids.items():
        outside(cell, uuid, said)
    if told == "report":
        reports(cell).report()
    else:
        reports(cell).report_events()
    cell.bus.run()
    assert {case: shown(cell, uuid) for case, uuid in uuids.items()} == {
        case: (vm_state, None, state) for case, (vm_state, state) in _OUTCOMES.items()
    }
    states = cell.drivers["node1"].list_guests()
    assert {case: states.get(uuid, P.NOSTATE) for case, uuid in uuids.items()} == {
        case: state for case, (_, state) in _OUTCOMES.items()
    }


@pytest.mark.parametrize(("vm_state", "said"), list(product([S.BUILDING, S.RESCUED, S.RESIZED, S.ERROR, S.SHELVED], P)))
def test_other_servers_only_show_it(vm_state: S, said: P) -> None:
    assert remedy(Recorded("a", "node1", vm_state, P.RUNNING, ""), said) is Remedy.NOTHING
    assert remedy(Recorded("a", "node1", vm_state, P.RUNNING, ""), said, resume=True) is Remedy.NOTHING


def test_a_server_in_error_only_shows_it(cell: Cell) -> None:
    uuid = boot(cell)
    cell.database.write(lambda tx: _set(tx, uuid, vm_state=S.ERROR))
    outside(cell, uuid, P.SHUTDOWN)
    reports(cell).report()
    cell.bus.run()
    assert shown(cell, uuid) == (S.ERROR, None, P.SHUTDOWN)


def _set(tx: object, uuid: str, **values: object) -> None:
    from kilonova.db import instances

    instances.change(tx, uuid, **values)  # type: ignore[arg-type]


def test_what_is_as_it_should_be_costs_no_question_and_no_write(cell: Cell) -> None:
    boot(cell), boot(cell, S.STOPPED)
    writes: list[object] = []
    reports(cell).report_events()
    cell.bus.run()
    cell.bus.sent.clear()
    cell.database.write = writes.append  # type: ignore[method-assign, assignment]
    reports(cell).report()
    reports(cell).report_events()
    cell.bus.run()
    assert cell.bus.sent == writes == []


def test_a_server_with_something_under_way_is_left_alone(cell: Cell) -> None:
    uuid = boot(cell)
    cell.power(uuid, "stop")
    outside(cell, uuid, P.CRASHED)
    reports(cell).report()
    assert not [message for message in cell.bus.sent if isinstance(message, AskPowerStates)]
    cell.bus.run()
    assert shown(cell, uuid) == (S.STOPPED, None, P.SHUTDOWN)


@pytest.mark.parametrize("task", [TaskState.REBOOT_STARTED, TaskState.REBOOT_PENDING, TaskState.REBOOT_STARTED_HARD])
@pytest.mark.parametrize("said", [P.SHUTDOWN, P.CRASHED, P.NOSTATE])
def test_an_interrupted_reboot_shows_the_state_of_the_guest_and_is_not_stopped(
    cell: Cell, task: TaskState, said: P
) -> None:
    uuid = boot(cell)
    cell.database.write(lambda tx: _set(tx, uuid, task_state=task))
    before = cell.instance(uuid).updated_at
    outside(cell, uuid, said)
    for _ in range(2):
        reports(cell, resume=True).report(resume=True)
        cell.bus.run()
        assert shown(cell, uuid) == (S.ACTIVE, task, said)
    assert cell.instance(uuid).updated_at == before, "the reboot has made no progress"
    assert (_messages(cell, StopGuest), _messages(cell, StartGuest), _messages(cell, AskPowerStates)) == (0, 0, 1)


def test_the_end_of_a_reboot_wins_over_an_answer_from_before(cell: Cell) -> None:
    uuid = boot(cell)
    cell.power(uuid, "reboot")
    _ask_about(cell, uuid)
    outside(cell, uuid, P.SHUTDOWN)
    cell.bus.run()
    reports(cell).report()
    cell.bus.run()
    assert shown(cell, uuid) == (S.ACTIVE, None, P.RUNNING)
    cell.check()


def test_the_other_host_of_a_server_says_nothing_of_it(cell: Cell) -> None:
    uuid = boot(cell)
    (elsewhere,) = [agent for agent in cell.agents if agent.host == "node2"]
    PowerReports(cell.bus, [elsewhere], PowerReporting()).report()
    cell.bus.run()
    assert shown(cell, uuid) == (S.ACTIVE, None, P.RUNNING)


def _messages(cell: Cell, kind: type) -> int:
    return sum(isinstance(message, kind) for message in cell.bus.sent)


@pytest.mark.parametrize(
    ("before", "act", "after"),
    [(S.STOPPED, "start", S.ACTIVE), (S.ACTIVE, "stop", S.STOPPED), (S.PAUSED, "unpause", S.ACTIVE)],
)
@pytest.mark.parametrize("when", ["before the report is read", "before it is asked", "before the answer is read"])
def test_a_report_that_an_action_overtakes_does_nothing(cell: Cell, before: S, act: str, after: S, when: str) -> None:
    """The guest is reported as it was before an action that is over by the time at which that is read."""
    uuid = boot(cell, before)
    held: list[Callable[[], None]] = []
    conductor_hears = cell.bus._conductor
    cell.bus._conductor = lambda message: held.append(lambda: conductor_hears(message))
    if when == "before the report is read":
        reports(cell).report()
        cell.bus.run()
    else:  # something else looked odd, so that the question is under way
        _ask_about(cell, uuid)
        if when == "before the answer is read":
            cell.bus.run()
    cell.bus._conductor = conductor_hears
    cell.power(uuid, act)
    cell.bus.run()
    assert shown(cell, uuid)[:2] == (after, None)
    orders = _messages(cell, StopGuest), _messages(cell, StartGuest)
    for deliver in held:
        deliver()
    cell.bus.run()
    assert shown(cell, uuid)[:2] == (after, None)
    assert (_messages(cell, StopGuest), _messages(cell, StartGuest)) == orders
    cell.check()


def _ask_about(cell: Cell, uuid: str) -> None:
    """A host is asked for a guest."""
    from kilonova.db import power_states

    with cell.database.read() as connection:
        (server,) = power_states.of_servers(connection, [uuid])
    cell.bus.cast("node1", AskPowerStates(_STEP, {uuid: server.seen}))


@pytest.mark.parametrize("seed", range(8))
def test_whatever_the_order_nothing_is_stopped_that_a_user_started(
    sqlite_template: Path, tmp_path: Path, seed: int
) -> None:
    """Actions, reports and answers in any order, each message twice: what users did last holds in the end."""
    rng = random.Random(seed)
    cell = new_cell(sqlite_template, tmp_path, host("node1", vcpus=8), bus=ManualBus(copies=2, order=rng))
    uuids = cell.boot(4)
    cell.bus.run()
    wanted = dict.fromkeys(uuids, S.ACTIVE)
    told = reports(cell)
    for _ in range(120):
        uuid = rng.choice(uuids)
        server = cell.instance(uuid)
        match rng.randrange(4):
            case 0 if server.task_state is None:
                assert server.vm_state is wanted[uuid], "a report has undone what a user did"
                wanted[uuid] = S.STOPPED if server.vm_state is S.ACTIVE else S.ACTIVE
                cell.power(uuid, "start" if server.vm_state is S.STOPPED else "stop")
            case 1:
                told.report()
            case 2:
                told.report_events()
            case _:
                for _ in range(rng.randrange(8)):
                    cell.bus.step()
    cell.bus.run()
    assert cell.check() == wanted
    cell.database.close()


def test_guests_run_again_after_their_host_lost_power(cell: Cell) -> None:
    runs, off, paused = boot(cell), boot(cell, S.STOPPED), boot(cell, S.PAUSED)
    gone = boot(cell)
    for uuid in (runs, off, paused):
        outside(cell, uuid, P.SHUTDOWN)
    outside(cell, gone, P.NOSTATE)
    again = reports(cell, resume=True)
    again.came_up()
    cell.bus.run()
    assert shown(cell, runs) == (S.ACTIVE, None, P.RUNNING)
    assert shown(cell, off) == (S.STOPPED, None, P.SHUTDOWN)
    assert shown(cell, paused) == (S.STOPPED, None, P.SHUTDOWN)
    assert shown(cell, gone) == (S.ACTIVE, None, P.NOSTATE), "a reboot that somebody asks for makes it anew"
    outside(cell, runs, P.SHUTDOWN)
    again.came_up()  # another session of the same process: its host has not been started
    cell.bus.run()
    assert shown(cell, runs) == (S.STOPPED, None, P.SHUTDOWN)
    cell.power(gone, "hard-reboot")
    cell.bus.run()
    assert shown(cell, gone) == (S.ACTIVE, None, P.RUNNING)
    cell.check()


def test_without_that_option_they_stay_off(cell: Cell) -> None:
    uuid = boot(cell)
    outside(cell, uuid, P.SHUTDOWN)
    reports(cell).came_up()
    cell.bus.run()
    assert shown(cell, uuid) == (S.STOPPED, None, P.SHUTDOWN)


def test_what_happens_after_the_first_report_is_told_as_an_event(cell: Cell) -> None:
    before, after = boot(cell), boot(cell)
    outside(cell, before, P.SHUTDOWN)
    told = PowerReports(cell.bus, cell.agents, PowerReporting(interval_s=-1))
    told.came_up()
    outside(cell, after, P.SHUTDOWN)
    told.report_events()
    cell.bus.run()
    assert shown(cell, before) == (S.ACTIVE, None, P.RUNNING), "with a negative interval nobody looks at the start"
    assert shown(cell, after) == (S.STOPPED, None, P.SHUTDOWN)


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        (PowerReporting(interval_s=-1), P.RUNNING),
        (PowerReporting(interval_s=-1, resume=True), P.RUNNING),
        (PowerReporting(interval_s=0), P.SHUTDOWN),
    ],
)
def test_a_negative_interval_means_that_nobody_looks(cell: Cell, how: PowerReporting, expected: P) -> None:
    uuid = boot(cell)
    outside(cell, uuid, P.SHUTDOWN)
    PowerReports(cell.bus, cell.agents, how).came_up()
    cell.bus.run()
    assert cell.instance(uuid).power_state is expected
