# SPDX-License-Identifier: Apache-2.0
"""Steps that may take seconds, forwards and in a rollback: they run on threads of their own."""

from kilonova.conductor.workflow_engine.effects import Completed, Effect, Failed
from kilonova.conductor.workflow_engine.run import Failure, Interrupt, Run
from kilonova.conductor.workflow_engine.services import Services
from kilonova.db.database import Database
from support.workbench import Facts, Workbench, break_down, note, step, workflow


def _refuse(_services: Services, _run: Run[Facts]) -> Effect:
    return Failed(Failure("No room."))


def test_only_the_direction_that_blocks_runs_aside(sqlite: Database) -> None:
    flow = workflow(
        step("first", note, note),
        step("ports", note, note, blocking=True),
        step("plug", note, note, undo_blocks=True),
        step("act", _refuse, note),
    )
    bench = Workbench(sqlite, [flow])
    row = bench.begin(flow)
    assert bench.row(row) is None
    assert bench.bus.aside == 2


def test_a_blocking_undo_runs_aside_after_an_interrupt_too(sqlite: Database) -> None:
    flow = workflow(step("ports", note, note, blocking=True, undo_blocks=True), step("act", undo=note))
    bench = Workbench(sqlite, [flow])
    row = bench.begin(flow)
    bench.interrupt(row, Interrupt.DELETE)
    assert bench.row(row) is None
    assert bench.bus.aside == 2


def test_a_step_that_was_interrupted_before_its_thread_began_does_nothing(sqlite: Database) -> None:
    done: list[str] = []

    def act(_services: Services, run: Run[Facts]) -> Effect:
        done.append("undo" if run.row.undoing else "do")
        return Completed()

    flow = workflow(step("first", note, note), step("ports", act, act, blocking=True, undo_blocks=True))
    bench = Workbench(sqlite, [flow])
    blocked = bench.bus.run_blocking
    kept = []
    bench.bus.run_blocking = kept.append  # type: ignore[method-assign]
    row = bench.begin(flow)
    bench.bus.run_blocking = blocked  # type: ignore[method-assign]
    bench.interrupt(row, Interrupt.DELETE)
    for late in kept:
        late()
    assert done == ["undo"]


def test_a_step_is_told_that_it_may_have_run_before(sqlite: Database) -> None:
    seen: list[bool] = []

    def act(services: Services, run: Run[Facts]) -> Effect:
        seen.append(run.repeated)
        return break_down(services, run) if len(seen) < 3 else Completed()

    flow = workflow(step("first", note), step("act", act, blocking=True), step("last"))
    bench = Workbench(sqlite, [flow])
    bench.begin(flow)
    bench.wait(60)
    bench.wait(60)
    assert seen == [False, True, True]
