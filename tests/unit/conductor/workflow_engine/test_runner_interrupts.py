# SPDX-License-Identifier: Apache-2.0
"""A delete, an abort or a hard reboot: what is under way walks back, is cut short, or is waited for."""

from typing import Any

import pytest

from kilonova.conductor.workflow_engine.effects import Completed, Effect, SendToAgent
from kilonova.conductor.workflow_engine.events import Phase
from kilonova.conductor.workflow_engine.run import Interrupt, Run
from kilonova.conductor.workflow_engine.services import Services
from kilonova.conductor.workflow_engine.workflow import NOTHING
from kilonova.db import workflows
from kilonova.db.database import Database
from kilonova.db.workflows import WorkflowRow
from kilonova.messaging.messages import AbortLiveMigration, RebootGuest, StepReply, StepState, StopGuest
from support.workbench import Facts, Workbench, note, step, unsend, workflow


def cut(_services: Any, run: Run[Facts]) -> Effect:
    return SendToAgent("a", AbortLiveMigration(run.step_id, run.instance_uuid))


#: The other one has a step end sooner, and nothing else.
WALKING_BACK = sorted(frozenset(Interrupt) - {Interrupt.FORCE_COMPLETE})
PLAIN = workflow(step("prepare", note, note), step("act", undo=unsend), overtaken_by=frozenset(WALKING_BACK))
CAREFUL = workflow(
    step("prepare", note, note),
    step("act", undo=unsend, interrupts={Interrupt.ABORT: cut}),
    step("finish"),
    kind="live-migrate",
    point_of_no_return="act",
    overtaken_by=frozenset({Interrupt.ABORT, Interrupt.DELETE}),
)
STUBBORN = workflow(step("act"), kind="delete", overtaken_by=frozenset(), urgent=True)


@pytest.fixture
def bench(sqlite: Database) -> Workbench:
    return Workbench(sqlite, [PLAIN, CAREFUL, STUBBORN])


def present(bench: Workbench, row: WorkflowRow) -> WorkflowRow:
    found = bench.row(row)
    assert found is not None
    return found


def kinds(bench: Workbench) -> list[type]:
    return [type(message) for message in bench.orders()]


@pytest.mark.parametrize("why", WALKING_BACK)
def test_a_plain_workflow_walks_back_at_once(bench: Workbench, why: Interrupt) -> None:
    row = bench.begin(PLAIN)
    bench.interrupt(row, why)
    assert kinds(bench) == [RebootGuest, StopGuest], "the undo follows the message to the agent"
    assert present(bench, row).undoing
    bench.reply()
    assert bench.row(row) is None
    assert bench.phases()[-1] is Phase.INTERRUPTED
    assert bench.told[-1].message == why.value


def test_a_late_reply_of_the_step_changes_nothing(bench: Workbench) -> None:
    row = bench.begin(PLAIN)
    order = bench.orders()[0]
    bench.interrupt(row, Interrupt.DELETE)
    before = present(bench, row)
    bench.sent.insert(len(bench.sent), ("a", order))
    bench.reply()
    assert present(bench, row) == before


def test_a_step_that_can_be_cut_short_is_told_so_and_its_reply_says_who_won(bench: Workbench) -> None:
    for error, last in (("aborted", Phase.INTERRUPTED), (None, Phase.DONE)):
        row = bench.begin(CAREFUL)
        order = bench.orders()[-1]
        bench.interrupt(row, Interrupt.ABORT)
        assert kinds(bench)[-1] is AbortLiveMigration
        assert bench.orders()[-1].step == order.step
        assert not present(bench, row).undoing, "it waits for the reply"
        bench.sent.append(("a", order))
        bench.reply(error, aborted=error is not None)
        bench.reply()
        assert bench.row(row) is None
        assert bench.phases()[-1] is last


def test_behind_the_point_of_no_return_it_goes_on(bench: Workbench) -> None:
    row = bench.begin(CAREFUL)
    bench.reply()
    bench.interrupt(row, Interrupt.DELETE)
    assert (present(bench, row).step, present(bench, row).undoing) == ("finish", False)
    assert kinds(bench) == [RebootGuest, RebootGuest]
    bench.reply()
    assert bench.row(row) is None
    assert bench.phases()[-1] is Phase.DONE


def test_what_walks_back_already_walks_back_once(bench: Workbench) -> None:
    row = bench.begin(PLAIN)
    bench.interrupt(row, Interrupt.OTHER_ACTION)
    bench.interrupt(row, Interrupt.DELETE)
    assert kinds(bench) == [RebootGuest, StopGuest]
    assert present(bench, row).interrupt == "delete"
    bench.reply()
    assert bench.row(row) is None


@pytest.mark.parametrize("flow", [PLAIN, CAREFUL], ids=["walks back", "goes on"])
def test_a_delete_begins_when_the_others_have_ended(bench: Workbench, flow: Any) -> None:
    row = bench.begin(flow)
    if flow is CAREFUL:
        bench.reply()
    bench.interrupt(row, Interrupt.DELETE)
    delete = bench.begin(STUBBORN, server=row.instance_uuid, waiting=True)
    assert present(bench, delete).waiting
    before = len(bench.orders())
    bench.reply()
    assert bench.row(row) is None
    assert not present(bench, delete).waiting
    assert len(bench.orders()) == before + 1
    bench.reply()
    assert bench.row(delete) is None


def test_a_delete_takes_the_place_of_an_undo_that_cannot_be_done(sqlite: Database) -> None:
    bench = Workbench(sqlite, [PLAIN, STUBBORN], max_tries=2)
    row = bench.begin(PLAIN)
    bench.interrupt(row, Interrupt.DELETE)
    delete = bench.begin(STUBBORN, server=row.instance_uuid, waiting=True)
    bench.reply("The disk hangs.")
    assert present(bench, delete).waiting
    bench.wait(1)
    bench.answer(StepState.UNKNOWN)
    bench.reply("The disk hangs.")
    assert bench.row(row) is None, "nobody has to decide about it: the delete takes care of all"
    assert not present(bench, delete).waiting
    assert bench.instance(row).fault is None


def test_a_delete_drops_what_has_not_begun(bench: Workbench) -> None:
    row = bench.begin(PLAIN)
    later = bench.begin(PLAIN, server=row.instance_uuid, waiting=True)
    bench.interrupt(row, Interrupt.OTHER_ACTION)
    assert present(bench, later).waiting
    bench.interrupt(row, Interrupt.DELETE)
    assert bench.row(later) is None
    assert kinds(bench) == [RebootGuest, StopGuest]


def test_an_interrupt_between_two_tries_is_noticed(sqlite: Database) -> None:
    def broken(_services: Any, _run: Run[Facts]) -> Effect:
        raise ZeroDivisionError

    flow = workflow(step("prepare", note, note), step("act", broken, note), overtaken_by=frozenset(WALKING_BACK))
    bench = Workbench(sqlite, [flow])
    row = bench.begin(flow)
    bench.interrupt(row, Interrupt.DELETE)
    assert bench.row(row) is None
    bench.wait(60)
    assert bench.phases()[-1] is Phase.INTERRUPTED


def test_the_workflow_of_another_process_is_marked_for_that_one(bench: Workbench) -> None:
    row = bench.begin(PLAIN)
    other = Workbench(bench.database, [PLAIN, CAREFUL, STUBBORN], owner="you")
    changed = other.database.write(lambda tx: other.runner.interrupt(tx, row.instance_uuid, Interrupt.DELETE))
    other.runner.interrupted(changed)
    other.bus.run()
    assert other.sent == []
    with bench.database.read() as connection:
        assert workflows.is_heir(connection, "me")
    inherited = bench.database.write(lambda tx: workflows.inherit(tx, "me"))
    bench.runner.interrupted(inherited)
    bench.bus.run()
    assert kinds(bench) == [RebootGuest, StopGuest]


def test_an_interrupt_before_the_reply_keeps_the_facts_of_the_message(sqlite: Database) -> None:
    def act(_services: Services, run: Run[Facts]) -> Effect:
        message = RebootGuest(run.step_id, run.instance_uuid, hard=True)
        return SendToAgent("a", message, facts=Facts(trace=("looked up",)))

    found: list[Facts] = []

    def replied(_services: Services, run: Run[Facts], _reply: StepReply) -> Effect:
        found.append(run.facts)
        return Completed(run.facts)

    flow = workflow(step("act", act, on_reply=replied), kind="delete", overtaken_by=frozenset(), urgent=True)
    bench = Workbench(sqlite, [flow])
    row = bench.begin(flow)
    bench.interrupt(row, Interrupt.DELETE)
    bench.reply()
    assert found == [Facts(trace=("looked up",))]
    assert bench.row(row) is None


def test_a_workflow_that_is_to_be_forced_goes_on(bench: Workbench) -> None:
    row = bench.begin(PLAIN)
    bench.interrupt(row, Interrupt.FORCE_COMPLETE)
    assert kinds(bench) == [RebootGuest]
    bench.reply()
    assert bench.row(row) is None
    assert bench.phases()[-1] is Phase.DONE


def test_a_step_without_undo_ends_at_once(sqlite: Database) -> None:
    flow = workflow(step("act", undo=NOTHING), overtaken_by=frozenset(WALKING_BACK))
    bench = Workbench(sqlite, [flow])
    row = bench.begin(flow)
    bench.interrupt(row, Interrupt.DELETE)
    assert bench.row(row) is None
    assert kinds(bench) == [RebootGuest]


def test_who_read_the_row_before_the_interrupt_changes_nothing(bench: Workbench) -> None:
    """A process takes over a workflow that a delete interrupts just then: the row it read is an old one."""
    row = bench.begin(PLAIN)
    read = present(bench, row)
    bench.interrupt(row, Interrupt.DELETE)
    walking = present(bench, row)
    assert walking.undoing
    bench.runner.begin([read], resumed=True)
    bench.bus.run()
    assert bench.runner.waits_for_agents == 1, "for the undo"
    bench.reply()
    assert bench.row(row) is None
