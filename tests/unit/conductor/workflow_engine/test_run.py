# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace

import pytest

from kilonova.conductor.workflow_engine.run import AGENT_TOO_OLD, UNREACHABLE, Failure, failure_of
from kilonova.db.workflows import WorkflowRow
from kilonova.messaging.messages import StepId, StepReply
from kilonova.model.instance import PowerState

ROW = WorkflowRow(uuid="w", kind="reboot", instance_uuid="i", reservation_id="", request_id="req-1", step="spawn")


def reply(error: str) -> StepReply:
    return StepReply(StepId("w", "spawn", 1), "node1", "i", error, power_state=PowerState.SHUTDOWN)


@pytest.mark.parametrize(("error", "unreachable"), [(UNREACHABLE, True), (AGENT_TOO_OLD, False)])
def test_a_host_that_never_heard_of_a_step_says_nothing_of_the_power_state(error: str, unreachable: bool) -> None:
    failure = Failure.of(reply(error))
    assert (failure.unreachable, failure.known_power_state) == (unreachable, None)


def test_a_host_that_failed_says_in_which_power_state_the_guest_is() -> None:
    failure = Failure.of(replace(reply("The disk hangs."), details="errno 5"))
    assert failure.known_power_state is PowerState.SHUTDOWN
    assert failure.as_fault().details == "Host: node1\nerrno 5"


def test_a_failure_that_another_release_stored_keeps_its_message() -> None:
    assert failure_of(ROW) is None
    stored = replace(ROW, failure={"message": "No room.", "fault_of": "something new"})
    assert failure_of(stored) == Failure("No room.")
