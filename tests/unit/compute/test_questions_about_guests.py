# SPDX-License-Identifier: Apache-2.0
"""An agent answers what it is asked about a guest, whatever else it is at, and only while somebody waits."""

from pathlib import Path
from typing import Any

import pytest

from kilonova.compute.questions import Questions
from kilonova.compute.virt.abilities import CONSOLE_BYTES
from kilonova.compute.virt.fake import FakeDriver
from kilonova.compute.virt.fake.guests import GuestFile
from kilonova.errors import Unsupported
from kilonova.messaging.messages import (
    AskConsoleOutput,
    ConsoleOutput,
    QuestionRefused,
    RebootGuest,
    RefusedBecause,
    SpawnGuest,
    StartGuest,
    StopGuest,
)
from support.one_host import OneHost, guest, new_step

ASK = AskConsoleOutput("a", "q1", "control")


def ask(host: OneHost, **changed: Any) -> Any:
    host.send(AskConsoleOutput("a", "q1", "control", **changed))
    host.bus.run()
    return host.told[-1]


def boots(host: OneHost) -> list[str]:
    return [line.rpartition(": ")[2] for line in ask(host).output.splitlines() if " Boot at " in line]


def test_the_console_shows_how_a_guest_was_started(tmp_path: Path) -> None:
    host = OneHost(tmp_path)
    host.do(SpawnGuest(new_step(), guest()))
    for order in (StopGuest, StartGuest, RebootGuest):
        host.do(order(new_step(), "a"))
    host.do(RebootGuest(new_step(), "a", hard=True))
    host.do(StartGuest(new_step(), "a"))  # it runs already
    assert boots(host) == ["first start", "start", "soft reboot", "hard reboot"]
    again = OneHost(tmp_path)  # the same host after a crash of its agent
    assert boots(again) == ["first start", "start", "soft reboot", "hard reboot"]
    answer = ask(again)
    assert answer == ConsoleOutput("q1", "node1", "a", "control", answer.output)
    assert "1 CPUs, 512 MiB of memory" in answer.output
    whole = answer.output.splitlines(keepends=True)
    for lines, shown in ((0, []), (1, whole[-1:]), (3, whole[-3:]), (1000, whole), (None, whole)):
        assert ask(again, lines=lines).output == "".join(shown)


def test_a_guest_that_boots_for_ever_has_no_endless_console(tmp_path: Path) -> None:
    host = OneHost(tmp_path)
    host.do(SpawnGuest(new_step(), guest()))
    for _ in range(50):
        host.do(RebootGuest(new_step(), "a"))
    assert len(GuestFile("node1", host.file).places["a"].guest.console) == 30  # type: ignore[union-attr]
    assert len(ask(host).output) < CONSOLE_BYTES


def test_no_guest_no_console(tmp_path: Path) -> None:
    answer = ask(OneHost(tmp_path))
    assert answer == QuestionRefused("q1", "node1", "a", "control", "Guest a does not exist.", RefusedBecause.NO_GUEST)


@pytest.mark.parametrize(
    ("error", "said", "because"),
    [
        (Unsupported("No console."), "No console.", RefusedBecause.UNSUPPORTED),
        (ZeroDivisionError("node1!"), "The hypervisor driver failed.", RefusedBecause.FAILED),
    ],
)
def test_a_driver_that_fails(tmp_path: Path, error: Exception, said: str, because: RefusedBecause) -> None:
    class Broken(FakeDriver):
        def console_output(self, uuid: str, lines: int | None) -> str:
            del uuid, lines
            raise error

    answer = ask(OneHost(tmp_path, driver=Broken))
    assert answer == QuestionRefused("q1", "node1", "a", "control", said, because)


def test_a_question_that_nobody_waits_for_any_more_is_passed_over(tmp_path: Path) -> None:
    host, now = OneHost(tmp_path), [0.0]
    questions = Questions("node1", host.driver, lambda: now[0])
    in_time, late = questions.accept(ASK), questions.accept(ASK)
    now[0] = 9.9
    assert in_time() is not None
    now[0] = 10.1
    assert late() is None


def test_a_question_waits_behind_no_order(tmp_path: Path) -> None:
    host = OneHost(tmp_path)
    host.do(SpawnGuest(new_step(), guest()))
    accept = host.agent.accept
    order = accept(RebootGuest(new_step(), "a"))
    question = accept(ASK)
    assert order is not None
    assert question is not None
    assert question.pool != order.pool
    question.run()
    host.bus.run()
    assert isinstance(host.told[-1], ConsoleOutput)
