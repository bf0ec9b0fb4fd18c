# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace
from typing import Any

import pytest

from kilonova.conductor.workflow_engine.effects import Completed, Gone, SendToAgent
from kilonova.conductor.workflow_engine.run import (
    Interrupt,
    ServerGoneError,
)
from kilonova.conductor.workflow_engine.workflow import CALL_OFF, NOTHING
from kilonova.db.workflows import WorkflowRow
from kilonova.messaging.messages import CallOff
from support.workbench import Facts, note, step, workflow

FLOW = workflow(step("claim", note), step("spawn", undo=note), step("finish", note), point_of_no_return="spawn")
ROW = FLOW.first_row(
    WorkflowRow(uuid="w", kind="reboot", instance_uuid="i", reservation_id="", request_id="req-1", step=""), Facts()
)


@pytest.mark.parametrize(("at", "can"), [("claim", True), ("spawn", True), ("finish", False)])
def test_a_failure_after_the_point_of_no_return_is_not_undone(at: str, can: bool) -> None:
    assert FLOW.can_walk_back(at) is can
    assert not replace(FLOW, forward_only=True).can_walk_back(at)


def test_the_row_of_the_next_step_is_a_new_attempt_and_a_new_version() -> None:
    run = FLOW.run(replace(ROW, tries=3))
    after = FLOW.after(run, Facts("b"))
    assert after is not None
    assert (after.step, after.attempt, after.version, after.tries) == ("spawn", ROW.attempt + 1, ROW.version + 1, 0)
    assert FLOW.run(after).facts == Facts("b")
    last = FLOW.run(replace(ROW, step="finish"))
    assert FLOW.after(last) is None


def test_a_step_whose_undo_has_something_to_do_is_journalled_before_it_begins() -> None:
    assert FLOW.may_lag(ROW)
    assert not FLOW.may_lag(replace(ROW, step="spawn"))
    assert FLOW.may_lag(replace(ROW, step="spawn", undoing=True))


def test_steps_need_names_of_their_own() -> None:
    with pytest.raises(AssertionError):
        workflow(step("a"), step("a"))


def test_an_order_on_its_way_is_called_off_only_where_somebody_may_overtake_it() -> None:
    services: Any = None
    run = FLOW.run(ROW)
    assert CALL_OFF(services, run) == Completed(durable=False)
    assert CALL_OFF(services, FLOW.run(replace(ROW, interrupt=Interrupt.EVACUATE.value))) == Completed(durable=False)
    effect = CALL_OFF(services, FLOW.run(replace(ROW, interrupt=Interrupt.DELETE.value)))
    assert effect == SendToAgent("a", CallOff(run.step_id, "i"))


def test_a_step_without_its_server_has_nothing_to_do() -> None:
    def gone(*_: Any) -> Any:
        raise ServerGoneError

    services: Any = None
    assert step("act", gone).act(services, FLOW.run(ROW)) == Gone()
    assert step("act", note, CALL_OFF).leaves_nothing
    assert step("act", gone, NOTHING).leaves_nothing
    assert not step("act", note, note).leaves_nothing


def test_a_step_that_does_not_apply_is_passed_over_in_both_directions() -> None:
    flow = workflow(
        step("claim", note), step("ports", note, note, applies=lambda facts: facts.host == "a"), step("act")
    )
    run = flow.run(ROW)
    with_ports, without = flow.after(run, Facts("a")), flow.after(run, Facts("b"))
    assert with_ports is not None
    assert without is not None
    assert (with_ports.step, without.step) == ("ports", "act")
    assert (flow.before("act", Facts("a")), flow.before("act", Facts("b"))) == ("ports", "claim")
    assert flow.before("claim", Facts("a")) is None
    assert flow.first(Facts("b")) == "claim"
    assert workflow(step("ports", applies=lambda _facts: False), step("act")).first(Facts()) == "act"
    last = workflow(step("claim", note), step("ports", note, applies=lambda _facts: False))
    assert last.after(last.run(ROW)) is None
