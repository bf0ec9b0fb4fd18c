# SPDX-License-Identifier: Apache-2.0
"""Retries of workflow steps that raise: back-off, limits, and replies to earlier attempts."""

from typing import Any

import pytest

from kilonova.conductor.workflow_engine.effects import Completed, Effect
from kilonova.conductor.workflow_engine.events import Phase
from kilonova.conductor.workflow_engine.run import Run
from kilonova.conductor.workflow_engine.runner import MAX_TRIES
from kilonova.db import workflows
from kilonova.db.core.transaction import Transaction
from kilonova.db.database import Database
from kilonova.errors import ConcurrentUpdate, Unavailable
from kilonova.model.instance import VmState
from support.workbench import Facts, Workbench, note, send, step, workflow


class Moody:
    """Breaks so often before it does what it is asked."""

    def __init__(self, breaks: int, error: Exception | None = None) -> None:
        self.left = breaks
        self.calls = 0
        self._error = error or ZeroDivisionError()

    def __call__(self, _services: Any, run: Run[Facts]) -> Effect:
        self.calls += 1
        if self.left:
            self.left -= 1
            raise self._error
        return note(_services, run)


def test_pauses_double_and_tries_are_counted_in_the_journal(sqlite: Database) -> None:
    moody = Moody(3)
    flow = workflow(step("act", moody), step("wait"))
    bench = Workbench(sqlite, [flow])
    row = bench.begin(flow)
    for tries, pause in enumerate((1.0, 2.0, 4.0), start=1):
        present = bench.row(row)
        assert present is not None
        assert (present.step, present.tries, moody.calls) == ("act", tries, tries)
        bench.wait(pause - 0.1)
        assert moody.calls == tries, "not yet"
        bench.wait(0.1)
    present = bench.row(row)
    assert present is not None
    assert (present.step, present.tries, moody.calls) == ("wait", 0, 4)


def test_a_write_that_others_have_made_impossible_is_not_tried_without_a_pause(sqlite: Database) -> None:
    """The workflow itself is as it was; what it would write into other rows is not."""
    calls = []

    def refuse(_tx: Transaction, _run: Run[Facts]) -> None:
        calls.append(1)
        raise ConcurrentUpdate("The server is somewhere else.")

    flow = workflow(step("act", lambda *_: Completed(write=refuse), note), step("wait"))
    bench = Workbench(sqlite, [flow])
    row = bench.begin(flow)
    assert len(calls) == 1
    bench.wait(1.0)
    assert len(calls) == 2
    for _ in range(MAX_TRIES):
        bench.wait(60)
    assert (len(calls), bench.row(row)) == (MAX_TRIES, None)
    assert bench.phases()[-1] is Phase.FAILED


@pytest.mark.parametrize("max_tries", [1, 2, MAX_TRIES])
def test_a_step_that_can_be_given_up_fails_and_walks_back(sqlite: Database, max_tries: int) -> None:
    moody = Moody(1000)
    flow = workflow(step("prepare", note, note), step("act", moody, note))
    bench = Workbench(sqlite, [flow], max_tries)
    row = bench.begin(flow)
    for _ in range(max_tries):
        bench.wait(60)
    assert moody.calls == max_tries
    assert bench.row(row) is None
    assert bench.phases()[-1] is Phase.FAILED
    server = bench.instance(row)
    assert (server.vm_state, server.task_state) == (VmState.ACTIVE, None)
    assert bench.told[-1].message == "An unexpected error stopped the operation.", "users learn nothing of its inside"


def test_what_cannot_be_reached_just_now_is_tried_without_end(sqlite: Database) -> None:
    moody = Moody(3 * MAX_TRIES, Unavailable("The database is away."))
    flow = workflow(step("act", moody))
    bench = Workbench(sqlite, [flow])
    row = bench.begin(flow)
    for _ in range(3 * MAX_TRIES):
        assert bench.row(row) is not None
        bench.wait(60)
    assert bench.row(row) is None
    assert bench.phases() == [Phase.BROKE] * (3 * MAX_TRIES) + [Phase.DONE]


def test_a_reply_of_an_earlier_try_is_not_taken_for_one_of_this(sqlite: Database) -> None:
    def angry(_services: Any, _run: Run[Facts], _reply: Any) -> Effect:
        raise ZeroDivisionError

    flow = workflow(step("act", send, on_reply=angry))
    bench = Workbench(sqlite, [flow])
    row = bench.begin(flow)
    bench.reply()
    bench.wait(1)
    first, again = bench.asked()[0], bench.row(row)
    assert again is not None
    assert first.step.attempt == again.attempt == 1  # type: ignore[union-attr]


def test_together_all_break_and_all_are_tried_again(sqlite: Database) -> None:
    calls: list[str] = []

    def claim(services: Any, run: Run[Facts]) -> Effect:
        calls.append(run.row.uuid)
        if len(calls) == 2:
            raise ZeroDivisionError
        return note(services, run)

    flow = workflow(step("claim", claim))
    bench = Workbench(sqlite, [flow])
    rows = [flow.first_row(bench_row, Facts()) for bench_row in _two(bench)]
    sqlite.write(lambda tx: workflows.insert(tx, rows, "me"))
    bench.runner.begin(rows)
    bench.bus.run()
    assert len(calls) == 2
    bench.wait(1)
    assert [bench.row(row) for row in rows] == [None, None]
    assert bench.phases() == [Phase.BROKE] * 2 + [Phase.DONE] * 2


def _two(bench: Workbench) -> list[workflows.WorkflowRow]:
    uuids = ("00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000002")
    return [
        workflows.WorkflowRow(
            uuid=uuid,
            kind="reboot",
            instance_uuid=bench.server(),
            reservation_id="r-1",
            request_id="req-1",
            step="",
            owner="me",
        )
        for uuid in uuids
    ]
