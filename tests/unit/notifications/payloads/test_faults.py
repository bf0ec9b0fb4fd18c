# SPDX-License-Identifier: Apache-2.0
"""Exceptions in payloads."""

import pytest

from kilonova.conductor.workflow_engine.run import Failure
from kilonova.notifications.payloads import faults


@pytest.mark.parametrize(
    ("failure", "name"),
    [
        (Failure("No valid host", step="claim"), "NoValidHost"),
        (Failure("gone", unreachable=True, step="spawn"), "HostUnreachable"),
        (Failure("disk", host="node1", step="spawn"), "DriverError"),
    ],
)
def test_a_fault_says_what_kind_it_is(failure: Failure, name: str) -> None:
    said = faults.ExceptionPayload.of("hard-reboot", failure)
    assert (said.exception, said.module_name) == (name, "kilonova.conductor.workflows.hard_reboot")
    assert (said.exception_message, said.function_name) == (failure.message, failure.step)
