# SPDX-License-Identifier: Apache-2.0
"""Whoever asks a host about a guest has the answer, or a refusal in time; slow hosts hold few threads."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from kilonova.conductor.hosts.agent_questions import AgentQuestions, QuestionLimits
from kilonova.errors import AgentTooOld, KilonovaError, Unavailable, Unsupported
from kilonova.messaging.messages import AskConsoleOutput, ConsoleOutput
from support.waiting import wait_until

LIMITS = QuestionLimits(within_s=1.0, waiting=4)


class Hosts:
    """Agents as a control process sees them. Those in ``frozen`` take what they are asked, and say nothing."""

    def __init__(self) -> None:
        self.frozen: set[str] = set()
        self.away: set[str] = set()
        self.old: set[str] = set()
        self.asked: list[tuple[str, AskConsoleOutput]] = []
        self.questions = AgentQuestions(self, "control", lambda _: False, LIMITS)  # type: ignore[arg-type]
        self._lane = ThreadPoolExecutor(1)

    def cast(self, host: str, question: Any) -> None:
        if host in self.away:
            raise Unavailable(f"No agent serves host {host}.")
        if host in self.old:
            raise AgentTooOld(f"The agent of host {host} has to be upgraded.")
        self.asked.append((host, question))
        if host not in self.frozen:
            self._lane.submit(self.answer, host, question)

    def answer(self, host: str, question: AskConsoleOutput, output: str = "words") -> None:
        uuid, asker = question.instance_uuid, question.asker
        self.questions.take(ConsoleOutput(question.question, host, uuid, asker, output))

    def ask(self, host: str) -> str:
        try:
            answer = self.questions.ask(host, AskConsoleOutput("a", lines=3))
        except KilonovaError as error:
            return error.message
        assert isinstance(answer, ConsoleOutput)
        return answer.output

    def close(self) -> None:
        self._lane.shutdown()


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    made = Hosts()
    yield made
    made.close()


def test_an_answer_comes_back_to_whoever_asked(hosts: Hosts) -> None:
    assert hosts.ask("node1") == "words"
    ((host, asked),) = hosts.asked
    assert (host, asked.instance_uuid, asked.lines) == ("node1", "a", 3)
    assert (asked.asker, asked.within_s) == ("control", 1.0)
    assert len(asked.question) == 36


def test_who_cannot_be_asked_is_not_waited_for(hosts: Hosts) -> None:
    hosts.away.add("node1")
    hosts.old.add("node2")
    began = time.monotonic()
    with pytest.raises(Unavailable, match=r"^The host of the instance cannot be reached\.$"):
        hosts.questions.ask("node1", AskConsoleOutput("a"))
    with pytest.raises(Unsupported, match=r"^The host of the instance runs an older release, which cannot answer this"):
        hosts.questions.ask("node2", AskConsoleOutput("a"))
    assert time.monotonic() - began < LIMITS.within_s


def test_a_host_that_says_nothing_is_given_up(hosts: Hosts) -> None:
    hosts.frozen.add("node1")
    began = time.monotonic()
    assert hosts.ask("node1") == "The host of the instance does not answer."
    assert 0.9 < time.monotonic() - began < 5
    hosts.frozen.clear()
    assert hosts.ask("node1") == "words"


@pytest.mark.parametrize("forged", [{"host": "node2"}, {"instance_uuid": "b"}, {"question": "another"}])
def test_what_another_host_answers_or_about_another_guest_is_not_taken(hosts: Hosts, forged: dict[str, str]) -> None:
    hosts.frozen.add("node1")
    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(hosts.ask, "node1")
        wait_until(lambda: hosts.asked, "the question", every_s=0.001)
        asked = hosts.asked[0][1]
        said = {"question": asked.question, "host": "node1", "instance_uuid": "a", "output": "lies", **forged}
        hosts.questions.take(ConsoleOutput(**said))
        hosts.answer("node1", asked, "truth")
        hosts.answer("node1", asked, "twice")
        assert asking.result() == "truth"


def test_a_thousand_questions_to_a_frozen_host_hold_two_threads_and_stop_nobody(hosts: Hosts) -> None:
    hosts.frozen.add("node1")
    threads = 16
    held, most = 0, 0
    lock = threading.Lock()

    def ask(host: str) -> tuple[str, float]:
        nonlocal held, most
        with lock:
            held += host == "node1"
        began = time.monotonic()
        answer = hosts.ask(host)
        with lock:
            held -= host == "node1"
        return answer, time.monotonic() - began

    with ThreadPoolExecutor(threads) as pool:
        first = [pool.submit(ask, "node1") for _ in range(threads)]
        for each in first:
            each.result()
        began = time.monotonic()
        frozen = [pool.submit(ask, "node1") for _ in range(1000)]
        well = [pool.submit(ask, "node2") for _ in range(20)]
        assert [each.result()[0] for each in well] == ["words"] * 20
        took = time.monotonic() - began
        assert took < len(frozen) / LIMITS.waiting * LIMITS.within_s / 10, "they waited behind those of the frozen host"
        answers = [each.result() for each in frozen]
    refused = [taken for answer, taken in answers if "too many requests wait" in answer]
    given_up = [taken for answer, taken in answers if "does not answer" in answer]
    assert len(refused) + len(given_up) == 1000
    assert len(refused) > 950
    assert sorted(refused)[500] < 0.01
    assert len([host for host, _ in hosts.asked if host == "node1"]) <= threads + len(given_up)


def test_many_frozen_hosts_hold_a_quarter_of_the_threads(hosts: Hosts) -> None:
    names = [f"node{number}" for number in range(12)]
    hosts.frozen |= set(names)
    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(hosts.ask, names))
    assert answers.count("The host of the instance does not answer.") == LIMITS.waiting
    assert sum("too many requests wait" in answer for answer in answers) == 12 - LIMITS.waiting


def test_a_host_that_answers_is_slow_no_more(hosts: Hosts) -> None:
    hosts.frozen.add("node1")
    assert "does not answer" in hosts.ask("node1")
    with ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(hosts.ask, "node1") for _ in range(2)]
        wait_until(lambda: len(hosts.asked) == 3, "three questions", every_s=0.001)
        assert "too many requests wait" in hosts.ask("node1")
        hosts.frozen.clear()
        hosts.answer("node1", hosts.asked[0][1])  # late, so nobody has it, but there it is
        assert hosts.ask("node1") == "words"
        for _, asked in hosts.asked[1:3]:
            hosts.answer("node1", asked)
        assert [each.result() for each in waiting] == ["words", "words"]
