# SPDX-License-Identifier: Apache-2.0
from pathlib import Path
from typing import Any

import pytest

from kilonova.messaging.messages import (
    PauseGuest,
    ResumeGuest,
    StartGuest,
    StopGuest,
    SuspendGuest,
    UnpauseGuest,
)
from kilonova.model.instance import PowerState
from support.one_host import OneHost, host_with_guest, new_step


@pytest.fixture
def host(tmp_path: Path) -> OneHost:
    return host_with_guest(tmp_path)


@pytest.mark.parametrize(
    ("go", "back", "state"),
    [(PauseGuest, UnpauseGuest, PowerState.PAUSED), (SuspendGuest, ResumeGuest, PowerState.SUSPENDED)],
)
def test_a_repeated_order_changes_nothing_and_another_state_is_refused(
    host: OneHost, go: Any, back: Any, state: PowerState
) -> None:
    for order, expected in ((go, state), (go, state), (back, PowerState.RUNNING), (back, PowerState.RUNNING)):
        assert host.do(order(new_step(), "a")).error is None
        assert host.driver.list_guests() == {"a": expected}
    host.do(StopGuest(new_step(), "a"))
    for order, needed in ((go, "running"), (back, state.name.lower())):
        assert host.do(order(new_step(), "a")).error == f"Guest a is shutdown, not {needed}."
    assert host.driver.list_guests() == {"a": PowerState.SHUTDOWN}


def test_a_running_guest_is_not_booted_again(host: OneHost) -> None:
    before = host.driver.console_output("a", None)
    host.do(StartGuest(new_step(), "a"))
    assert host.driver.console_output("a", None) == before
    host.do(StopGuest(new_step(), "a"))
    host.do(StartGuest(new_step(), "a"))
    assert host.driver.console_output("a", None) != before
