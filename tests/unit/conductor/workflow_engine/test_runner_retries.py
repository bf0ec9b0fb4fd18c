# SPDX-License-Identifier: Apache-2.0
"""Workflows that are stuck after their retries, and writes that need no journal entry."""

import pytest

from kilonova.conductor.workflow_engine.effects import Completed, Failed
from kilonova.conductor.workflow_engine.events import Phase
from kilonova.conductor.workflow_engine.run import Failure, failure_of
from kilonova.conductor.workflow_engine.workflow import Do
from kilonova.db.database import Database
from kilonova.messaging.messages import StepState
from kilonova.model.instance import TaskState, VmState
from support.workbench import Facts, Workbench, break_down, note, step, unsend, workflow

STUCK = {
    "an undo": workflow(step("prepare", note, break_down), step("act", lambda *_: Failed(Failure("No room.")), note)),
    "an undo by an agent": workflow(step("act", undo=unsend)),
    "past the point of no return": workflow(
        step("commit", note), step("act", break_down, note), point_of_no_return="commit"
    ),
    "forward only": workflow(step("act", lambda *_: Failed(Failure("No room."))), forward_only=True),
}


@pytest.mark.parametrize("why", STUCK)
def test_what_can_go_neither_on_nor_back_is_stuck(sqlite: Database, why: str) -> None:
    flow = STUCK[why]
    bench = Workbench(sqlite, [flow], max_tries=2)
    row = bench.begin(flow)
    if why == "an undo by an agent":
        bench.reply("No room.")
        bench.reply("The disk hangs.")
        bench.wait(1)
        bench.answer(StepState.UNKNOWN)
        bench.reply("The disk hangs.")
    bench.wait(60)
    stuck = bench.row(row)
    assert stuck is not None
    assert stuck.stuck
    assert not bench.runner.known
    assert bench.phases()[-1] is Phase.STUCK
    server = bench.instance(row)
    assert (server.vm_state, server.task_state) == (VmState.ERROR, None)
    assert server.fault is not None
    failure = failure_of(stuck)
    assert failure is not None
    assert failure.stuck_because == server.fault.message
    assert (failure.vm_state, failure.task_state) == (VmState.ACTIVE, TaskState.REBOOTING)
    sent = len(bench.sent)
    bench.wait(3600)
    assert len(bench.sent) == sent, "until somebody decides"
    assert bench.row(row) == stuck


@pytest.mark.parametrize("do", [break_down, lambda *_: Failed(Failure("No room."))])
@pytest.mark.parametrize("max_tries", [1, 3])
def test_a_workflow_that_cannot_be_turned_back_is_stuck(sqlite: Database, do: Do[Facts], max_tries: int) -> None:
    """The database refuses what is written as it turns back, each time: the name of the event that ends is no text."""
    flow = workflow(step("act", do, event=object()), action="reboot")
    bench = Workbench(sqlite, [flow], max_tries)
    row = bench.begin(flow)
    for _ in range(max_tries):
        bench.wait(60)
    stuck = bench.row(row)
    assert stuck is not None
    assert (stuck.stuck, stuck.undoing) == (True, False)
    server = bench.instance(row)
    assert (server.vm_state, server.task_state) == (VmState.ERROR, None)
    assert bench.phases() == [Phase.BROKE] * (max_tries - 1) + [Phase.STUCK]


def test_what_failed_first_is_still_known_when_its_undo_is_stuck(sqlite: Database) -> None:
    bench = Workbench(sqlite, [STUCK["an undo"]], max_tries=1)
    row = bench.begin(STUCK["an undo"])
    stuck = bench.row(row)
    assert stuck is not None
    failure = failure_of(stuck)
    assert failure is not None
    assert (failure.message, failure.step) == ("No room.", "act")


def test_completed_with_nothing_to_journal_is_not_journalled(sqlite: Database) -> None:
    flow = workflow(step("skip", lambda *_: Completed(durable=False)), step("wait"))
    bench = Workbench(sqlite, [flow])
    row = bench.begin(flow)
    present = bench.row(row)
    assert present is not None
    assert (present.step, present.version) == ("skip", 0)
    bench.reply()
    assert bench.row(row) is None
