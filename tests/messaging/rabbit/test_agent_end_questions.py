# SPDX-License-Identifier: Apache-2.0
"""What agents ask is answered soon although the control process that took it dies, hangs or has no database."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future

import pytest

from kilonova.bundled_services.free_ports import free_port
from kilonova.errors import Unavailable
from kilonova.identifiers import new_uuid
from kilonova.messaging.bus import DeclinedError, Sender
from kilonova.messaging.local import LocalBus
from kilonova.messaging.messages import Answer, Heartbeat, HeartbeatAnswer, HostsRegistered, HostsStarted, Question
from kilonova.messaging.rabbit.agent_end import RabbitAgentBus
from kilonova.messaging.rabbit.conductor_end import RabbitConductorBus
from support.broker import CONTROL, Broker
from support.rabbit_ends import RabbitEnds, connected
from support.waiting import wait_until

_FIRST = HeartbeatAnswer("first", 1, counts=True)


@pytest.fixture
def ends(broker: Broker) -> Iterator[RabbitEnds]:
    made = RabbitEnds(broker, answered_within_s=30.0)
    yield made
    made.close()


@pytest.fixture
def another(broker: Broker, ends: RabbitEnds) -> Iterator[Callable[[Callable[[Question, Sender], Answer]], None]]:
    """Starts another control process, which answers."""
    started: list[RabbitConductorBus] = []

    def start(answer: Callable[[Question, Sender], Answer]) -> None:
        bus = RabbitConductorBus(broker.transport(CONTROL), new_uuid(), ends.routes, LocalBus())
        bus.serve_conductor(lambda _: None, answer)
        bus.start()
        connected(bus)
        started.append(bus)

    yield start
    for bus in started:
        bus.close()


def hang(_question: Question, _speaker: Sender) -> Future[Answer]:
    return Future()


def lose(_question: Question, _speaker: Sender) -> Answer:
    raise Unavailable("The database cannot be reached.")


@pytest.mark.parametrize("fails", [hang, lose])
def test_another_control_process_answers_within_seconds(
    ends: RabbitEnds, another: Callable[..., None], fails: Callable[..., Answer]
) -> None:
    answered: list[Question] = []

    def answer(question: Question, _speaker: Sender) -> Answer:
        if isinstance(question, HostsStarted):
            answered.append(question)
        return HostsRegistered()

    ends.serve_conductor(lambda _: None, fails)
    another(answer)
    began = time.monotonic()
    for _ in range(2):  # the broker gives one of them to each
        assert ends.agent.ask(HostsStarted((), session=ends.session)) == HostsRegistered()
    assert time.monotonic() - began < 20
    assert len(answered) == 2


def test_a_question_that_is_asked_again_is_worked_at_once_only(ends: RabbitEnds) -> None:
    goes_on = threading.Event()
    begun: list[Question] = []

    def answer(question: Question, _speaker: Sender) -> Answer:
        begun.append(question)
        assert goes_on.wait(20)
        return _FIRST

    ends.serve_conductor(lambda _: None, answer)
    timer = threading.Timer(2.5, goes_on.set)  # it is asked again after two seconds
    timer.start()
    assert ends.agent.ask(Heartbeat(session=ends.session)) == _FIRST
    assert len(begun) == 1
    timer.join()


def test_one_that_is_declined_hears_so_at_once(ends: RabbitEnds) -> None:
    refusal = HeartbeatAnswer("s", 0, counts=False)

    def decline(_question: Question, _speaker: Sender) -> Answer:
        raise DeclinedError("Session s of agent a has ended.", refusal)

    ends.serve_conductor(lambda _: None, decline)
    began = time.monotonic()
    assert ends.agent.ask(HostsStarted((), session=ends.session)) == refusal
    assert time.monotonic() - began < 10


def test_a_heartbeat_waits_behind_no_hosts_that_are_registered(ends: RabbitEnds) -> None:
    """Else agent processes that start together have the sessions of all others lapse."""
    goes_on, begun = threading.Event(), threading.Semaphore(0)

    def answer(question: Question, _speaker: Sender) -> Answer:
        if isinstance(question, Heartbeat):
            return _FIRST
        begun.release()
        assert goes_on.wait(30)
        return HostsRegistered()

    ends.serve_conductor(lambda _: None, answer)
    waiting = [threading.Thread(target=ends.agent.ask, args=(HostsStarted(()), 30.0)) for _ in range(20)]
    for thread in waiting:
        thread.start()
    try:
        for _ in range(16):  # as many as there are threads for it
            assert begun.acquire(timeout=20)
        began = time.monotonic()
        assert ends.agent.ask(Heartbeat(session=ends.session)) == _FIRST
        assert time.monotonic() - began < 10
    finally:
        goes_on.set()
        for thread in waiting:
            thread.join()


def test_who_waits_to_report_more_hosts_is_alive(ends: RabbitEnds) -> None:
    """Each copy says so: where many start together, the turn of one may come after its lease."""
    told: list[Question] = []
    goes_on = threading.Event()

    def answer(question: Question, _speaker: Sender) -> Answer:
        told.append(question)
        if isinstance(question, HostsStarted):
            assert goes_on.wait(20)
        return HostsRegistered()

    ends.serve_conductor(lambda _: None, answer)
    waiting = threading.Thread(target=ends.agent.ask, args=(HostsStarted((), session="mine"), 30.0))
    waiting.start()
    try:
        wait_until(lambda: told.count(Heartbeat(session="mine")) == 2, "it is asked again", at_most_s=20)
    finally:
        goes_on.set()
        waiting.join()
    assert sum(isinstance(question, HostsStarted) for question in told) == 1


def test_nothing_is_asked_over_and_over_of_a_broker_that_is_away(broker: Broker) -> None:
    agent = RabbitAgentBus("agent", broker.transport("agent", port=free_port()), new_uuid)
    with pytest.raises(Unavailable, match=r"within 2\.5 s"):
        agent.ask(Heartbeat(session="s"), 2.5)
    assert agent.waiting["to the broker"] == 1
    agent.close()
