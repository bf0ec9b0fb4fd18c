# SPDX-License-Identifier: Apache-2.0
"""The console output of a server comes from its host's agent, when that answers."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from support.control import Control, NewControl


@pytest.fixture
def control(new_control: NewControl) -> Control:
    return new_control(more="[conductor]\nguest_question_timeout = 0.5\n")


def show(control: Control, uuid: str, client: Any = None, **asked: Any) -> Any:
    return (client or control.member).post(f"/servers/{uuid}/action", {"os-getConsoleOutput": asked})


def test_the_log_of_a_server_that_was_rebooted(control: Control) -> None:
    uuid = control.boot()["id"]
    control.member.post(f"/servers/{uuid}/action", {"reboot": {"type": "HARD"}})
    control.settle()
    answer = show(control, uuid)
    assert answer.status == 200
    lines = answer.body["output"].splitlines()
    assert [line.rpartition(": ")[2] for line in lines if " Boot at " in line] == ["first start", "hard reboot"]
    for length, shown in (
        (0, []),
        ("0", []),
        (2, lines[-2:]),
        ("2", lines[-2:]),
        (-1, lines),
        ("-1", lines),
        (None, lines),
    ):
        assert show(control, uuid, length=length).body["output"].splitlines() == shown
    assert show(control, uuid, control.stranger).status == 404


def test_bad_bodies(control: Control) -> None:
    uuid = control.boot()["id"]
    for length in (-2, "-2", "ten", 1.5, True, {}, 2**31, "9" * 11):
        answer = show(control, uuid, length=length)
        assert answer.status == 400, length
        assert "length" in answer.fault[1]
    for given in (None, [], "all", {"lines": 3}):
        assert control.member.post(f"/servers/{uuid}/action", {"os-getConsoleOutput": given}).status == 400


def test_a_server_without_a_host_has_none(control: Control) -> None:
    control.add_flavor("9", vcpus=64)
    uuid = control.boot(flavorRef="9")["id"]
    answer = show(control, uuid)
    assert (answer.status, answer.fault[0]) == (409, "conflictingRequest")


def test_a_locked_server_shows_its_console(control: Control) -> None:
    uuid = control.boot()["id"]
    control.member.post(f"/servers/{uuid}/action", {"lock": None})
    assert show(control, uuid).status == 200


@contextmanager
def console(control: Control, uuid: str, output: Any) -> Iterator[None]:
    """Have the host of a server answer what ``output`` returns."""
    host = control.admin.get(f"/servers/{uuid}").body["server"]["OS-EXT-SRV-ATTR:host"]
    driver = next(agent.driver for agent in control.process.core.agents if agent.host == host)
    driver.console_output = output
    yield
    del driver.console_output


def test_control_characters_do_not_reach_a_terminal(control: Control) -> None:
    uuid = control.boot()["id"]
    with console(control, uuid, lambda *_: "a\x1b[2J\tb\r\n\x00\x07c\x7f\x9b\n"):
        assert show(control, uuid).body["output"] == "a[2J\tb\nc\n"


def test_a_host_that_does_not_answer_holds_nobody_up(control: Control) -> None:
    uuid = control.boot()["id"]
    release = threading.Event()
    with console(control, uuid, lambda *_: release.wait(30) and ""):
        answer = show(control, uuid)
        release.set()
    assert (answer.status, answer.fault) == (
        503,
        ("serviceUnavailable", "The host of the instance does not answer."),
    )
    assert show(control, uuid).status == 200
