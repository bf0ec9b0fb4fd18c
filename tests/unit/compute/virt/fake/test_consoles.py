# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from kilonova.errors import GuestMissing, GuestNotRunning, Unsupported
from kilonova.messaging.messages import StopGuest
from kilonova.model.console import ConsoleProtocol
from support.one_host import OneHost, host_with_guest, new_step


@pytest.fixture
def host(tmp_path: Path) -> OneHost:
    return host_with_guest(tmp_path)


def test_the_last_lines_of_the_console_end_in_a_login_prompt(host: OneHost) -> None:
    whole = host.driver.console_output("a", None)
    assert host.driver.console_output("a", 1) == "login:"
    assert host.driver.console_output("a", 0) == ""
    assert host.driver.console_output("a", 10_000) == whole
    assert "Kilonova simulated guest a" in whole


def test_a_console_needs_a_running_guest_and_a_protocol_that_is_simulated(host: OneHost) -> None:
    with pytest.raises(GuestMissing):
        host.driver.console_end("b", ConsoleProtocol.VNC)
    other = next(each for each in ConsoleProtocol if each not in {ConsoleProtocol.VNC, ConsoleProtocol.SERIAL})
    with pytest.raises(Unsupported, match=other.value.upper()):
        host.driver.console_end("a", other)
    host.do(StopGuest(new_step(), "a"))
    with pytest.raises(GuestNotRunning):
        host.driver.console_end("a", ConsoleProtocol.VNC)
