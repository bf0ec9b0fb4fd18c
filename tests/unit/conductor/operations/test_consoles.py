# SPDX-License-Identifier: Apache-2.0
from types import SimpleNamespace
from typing import Any

import pytest

from kilonova.conductor.operations.consoles import Consoles
from kilonova.errors import Conflict, KilonovaError, Unavailable, Unsupported
from kilonova.messaging.messages import (
    AskConsoleOutput,
    ConsoleOutput,
    GuestQuestion,
    QuestionRefused,
    RefusedBecause,
)


class Host:
    """Answers each question with ``answer``."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.asked: list[GuestQuestion] = []

    def ask(self, host: str, question: GuestQuestion) -> Any:
        assert host == "node1"
        self.asked.append(question)
        return self.answer


def output(host: Any, lines: int | None = None, *, place: str | None = "node1") -> str:
    server: Any = SimpleNamespace(uuid="i", host=place)
    database: Any = None
    return Consoles(host, database).output(server, lines)


def test_control_characters_that_a_terminal_obeys_are_removed() -> None:
    host = Host(ConsoleOutput("q", "node1", "i", "c", "login:\tok\n\x1b[31mred\x07\x9b2J\r\n"))
    assert output(host, 5) == "login:\tok\n[31mred2J\n"
    (question,) = host.asked
    assert isinstance(question, AskConsoleOutput)
    assert question.lines == 5


def test_an_agent_that_returns_too_much_is_cut_to_the_end() -> None:
    said = output(Host(ConsoleOutput("q", "node1", "i", "c", "old" + "x" * 200_000 + "new")))
    assert len(said) == 100 * 1024
    assert said.endswith("new")


@pytest.mark.parametrize(
    ("because", "error", "message"),
    [
        (RefusedBecause.UNSUPPORTED, Unsupported, "has no console output"),
        (RefusedBecause.NO_GUEST, Conflict, "its host has no guest of it"),
        (RefusedBecause.NOT_RUNNING, Conflict, "its guest does not run"),
        (RefusedBecause.FAILED, Unavailable, "at present: The disk hangs"),
    ],
)
def test_each_refusal_of_a_host_is_an_error_of_its_own(
    because: RefusedBecause, error: type[KilonovaError], message: str
) -> None:
    with pytest.raises(error, match=message):
        output(Host(QuestionRefused("q", "node1", "i", "c", "The disk hangs.", because)))


def test_a_server_without_a_host_has_no_console_and_a_wrong_answer_is_none() -> None:
    with pytest.raises(Conflict, match="it has no host"):
        output(Host(None), place=None)
    with pytest.raises(Unavailable):
        output(Host("nonsense"))
