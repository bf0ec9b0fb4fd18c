# SPDX-License-Identifier: Apache-2.0
"""A step that waits: its agent is asked, and nothing is sent again on suspicion."""

from dataclasses import replace

import pytest

from kilonova.conductor.workflow_engine.events import Phase
from kilonova.conductor.workflow_engine.run import UNREACHABLE
from kilonova.db.database import Database
from kilonova.messaging.messages import StepReply, StepState
from support.workbench import ASKED_AFTER_S, Facts, Workbench, note, send, step, unsend, workflow

ONE = workflow(step("act", undo=unsend))


@pytest.fixture
def bench(sqlite: Database) -> Workbench:
    return Workbench(sqlite, [ONE])


def test_before_the_deadline_nobody_is_asked(bench: Workbench) -> None:
    bench.begin(ONE)
    bench.wait(ASKED_AFTER_S - 1)
    assert (len(bench.orders()), bench.asked()) == (1, [])


def test_an_agent_that_is_at_it_gets_another_deadline(bench: Workbench) -> None:
    row = bench.begin(ONE)
    for questions in range(1, 20):
        bench.wait(ASKED_AFTER_S)
        assert len(bench.asked()) == questions
        bench.answer(StepState.RUNNING)
    assert len(bench.orders()) == 1, "nothing is sent again"
    bench.reply()
    assert bench.row(row) is None
    assert bench.phases() == [Phase.DONE]


def test_an_agent_that_is_done_says_so_again(bench: Workbench) -> None:
    row = bench.begin(ONE)
    bench.wait(ASKED_AFTER_S)
    order = bench.orders()[0]
    bench.answer(StepState.DONE, StepReply(order.step, "a", row.instance_uuid))
    assert bench.row(row) is None
    assert (len(bench.orders()), bench.phases()) == (1, [Phase.DONE])


def test_an_agent_that_never_heard_of_it_gets_the_message(bench: Workbench) -> None:
    row = bench.begin(ONE)
    bench.wait(ASKED_AFTER_S)
    bench.answer(StepState.UNKNOWN)
    first, second = bench.orders()
    assert first == second
    bench.reply()
    assert bench.row(row) is None


def test_an_agent_that_never_answers_counts_as_unreachable(bench: Workbench) -> None:
    row = bench.begin(ONE)
    for _ in range(5):
        bench.wait(ASKED_AFTER_S)
    assert len(bench.asked()) == 5
    failing = bench.row(row)
    assert failing is not None
    assert not failing.undoing
    bench.wait(ASKED_AFTER_S)
    walking = bench.row(row)
    assert walking is not None
    assert walking.undoing
    assert walking.failure is not None
    assert (walking.failure["message"], walking.failure["unreachable"]) == (UNREACHABLE, True)
    bench.reply()
    assert bench.row(row) is None
    assert bench.phases() == [Phase.STEP_FAILED, Phase.FAILED]


def test_a_host_that_goes_away_while_it_is_asked_counts_as_unreachable(bench: Workbench) -> None:
    row = bench.begin(ONE)
    bench.bus.cut_off = {"a"}
    bench.wait(ASKED_AFTER_S)
    assert Phase.STEP_FAILED in bench.phases()
    left = bench.row(row)
    assert left is not None
    assert left.undoing


def test_an_answer_to_an_older_question_changes_nothing(sqlite: Database) -> None:
    two = workflow(step("first"), step("second"))
    bench = Workbench(sqlite, [two])
    row = bench.begin(two)
    bench.wait(ASKED_AFTER_S)
    bench.reply()
    bench.answer(StepState.UNKNOWN)
    present = bench.row(row)
    assert present is not None
    assert (present.step, len(bench.orders())) == ("second", 2)


def test_who_takes_a_workflow_over_asks_first(bench: Workbench) -> None:
    row = bench.begin(ONE)
    heir = Workbench(bench.database, [ONE])
    heir.runner.begin([row], resumed=True)
    heir.bus.run()
    assert (len(heir.asked()), heir.orders()) == (1, [])
    heir.answer(StepState.RUNNING)
    assert heir.orders() == []
    heir.wait(ASKED_AFTER_S)
    heir.answer(StepState.UNKNOWN)
    assert heir.orders() == bench.orders()


def test_a_reply_is_taken_once_and_from_the_right_host(sqlite: Database) -> None:
    three = workflow(step("first", note), step("second", send), step("third", send))
    bench = Workbench(sqlite, [three])
    row = bench.begin(three)
    order = bench.orders()[0]
    reply = StepReply(order.step, "a", row.instance_uuid)
    bench.runner.take_reply(replace(reply, host="b"))
    bench.bus.run()
    assert len(bench.orders()) == 1
    for _ in range(3):
        bench.runner.take_reply(reply)
    bench.bus.run()
    present = bench.row(row)
    assert present is not None
    assert (present.step, len(bench.orders())) == ("third", 2)
    assert three.run(present).facts == Facts(trace=("first",))
