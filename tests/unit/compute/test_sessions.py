# SPDX-License-Identifier: Apache-2.0
"""A process with agents between its sign of life and others who may count it as dead."""

import itertools
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

import kilonova
from kilonova.compute.sessions import Sessions
from kilonova.errors import Unavailable
from kilonova.lease import Lease
from kilonova.messaging.bus import Sender
from kilonova.messaging.messages import (
    Answer,
    Heartbeat,
    HeartbeatAnswer,
    HostsRegistered,
    HostsStarted,
    Question,
    SpawnGuest,
    StartGuest,
    StepState,
    StepStatus,
    StopGuest,
)
from support.one_host import OneHost, guest, new_step

LEASE_S = 8.0


class Control:
    """Answers what is asked, unless it is away. ``takes_s``: how long an answer takes."""

    def __init__(self) -> None:
        self.now = 100.0
        self.takes_s = 0.0
        self.is_away = False
        self.dead: set[str] = set()
        self.leases: dict[str, float] = {}
        self.asked: list[Question] = []

    def answer(self, question: Question, _speaker: Sender) -> Answer:
        self.asked.append(question)
        self.now += self.takes_s
        if self.is_away:
            raise Unavailable("Nobody answers.")
        counts = self.now < self.leases.get(question.session, 0.0) and question.session not in self.dead
        if counts or isinstance(question, HostsStarted):
            self.leases[question.session] = self.now + LEASE_S
        if isinstance(question, HostsStarted):
            return HostsRegistered(lease_s=LEASE_S)
        return HeartbeatAnswer(question.session, question.number, counts)

    @property
    def sessions(self) -> list[str]:
        return [question.session for question in self.asked if isinstance(question, HostsStarted)]


class Process:
    """One host in a process of its own, whose clock is the test's."""

    def __init__(self, folder: Path) -> None:
        self.control = Control()
        self.lease = Lease(timedelta(seconds=60), clock=lambda: self.control.now)
        self.host = OneHost(folder, may_act=lambda: self.lease.is_held)
        self.host.bus.serve_conductor(self.host.told.append, self.control.answer)
        names = map(str, itertools.count(1))
        self.sessions = Sessions(
            [self.host.agent], self.host.bus, self.lease, 10.0, new_session=lambda: f"session {next(names)}"
        )


@pytest.fixture
def process(tmp_path: Path) -> Process:
    return Process(tmp_path)


def test_a_session_begins_with_a_report_that_says_what_the_process_runs(process: Process) -> None:
    assert not process.lease.is_held
    process.sessions.turn()
    (started,) = process.control.asked
    assert isinstance(started, HostsStarted)
    assert (started.session, started.release) == ("session 1", kilonova.__version__)
    assert process.lease.is_held
    assert process.sessions.pause_s == LEASE_S / 4


def test_heartbeats_are_counted_within_a_session(process: Process) -> None:
    for _ in range(3):
        process.sessions.turn()
    assert process.control.asked[1:] == [Heartbeat((), "session 1", number) for number in (1, 2)]


@pytest.mark.parametrize(("passes_s", "is_held"), [(LEASE_S - 1.5, True), (LEASE_S - 0.5, False)])
def test_the_lease_counts_from_when_the_sign_of_life_was_sent(
    process: Process, passes_s: float, *, is_held: bool
) -> None:
    process.sessions.turn()
    process.control.takes_s = 1.0
    process.sessions.turn()
    process.control.now += passes_s
    assert process.lease.is_held is is_held


def test_a_broker_that_is_away_costs_no_session_within_the_lease(process: Process) -> None:
    process.sessions.turn()
    process.control.is_away = True
    process.control.now += LEASE_S / 2
    with pytest.raises(Unavailable):
        process.sessions.turn()
    process.control.is_away = False
    process.sessions.turn()
    assert process.control.sessions == ["session 1"]
    process.control.now += LEASE_S - 1
    assert process.lease.is_held


def test_after_its_lease_it_reports_again_in_a_new_session(process: Process, caplog: pytest.LogCaptureFixture) -> None:
    process.sessions.turn()
    process.control.now += LEASE_S
    assert not process.lease.is_held
    process.sessions.turn()
    assert process.control.sessions == ["session 1", "session 2"]
    assert "within the lease (0:00:08)" in caplog.text


def test_a_lease_that_has_lapsed_only_here_goes_on_in_the_same_session(
    process: Process, caplog: pytest.LogCaptureFixture
) -> None:
    """The others count from later: from when they wrote the sign of life. Nobody has given these hosts up."""
    caplog.set_level("INFO")
    process.control.takes_s = 3.0
    process.sessions.turn()
    process.control.now += LEASE_S - 3.0
    assert not process.lease.is_held
    process.host.send(SpawnGuest(new_step(), guest()))
    process.host.bus.run()
    assert process.host.driver.list_guests() == {}
    process.control.takes_s = 0.0
    process.sessions.turn()
    assert process.lease.is_held
    assert process.control.sessions == ["session 1"]
    assert "Session session 1 continues" in caplog.text


def test_a_session_that_others_count_as_dead_ends_at_once(process: Process) -> None:
    process.sessions.turn()
    process.control.dead.add("session 1")
    process.sessions.turn()
    assert process.control.sessions == ["session 1", "session 2"]
    assert process.lease.is_held


def test_it_goes_on_asking_until_somebody_answers(process: Process) -> None:
    process.control.is_away = True
    for _ in range(3):
        with pytest.raises(Unavailable):
            process.sessions.turn()
    assert not process.lease.is_held
    process.control.is_away = False
    process.sessions.turn()
    assert process.lease.is_held


def test_an_answer_to_something_else_is_no_sign_of_life(process: Process) -> None:
    process.sessions.turn()
    process.host.bus.serve_conductor(process.host.told.append, lambda *_: HeartbeatAnswer("session 0", 1, counts=True))
    process.control.now += LEASE_S / 2
    with pytest.raises(Unavailable):
        process.sessions.turn()
    process.control.now += LEASE_S / 2
    assert not process.lease.is_held


def stopped(process: Process, then: Callable[[], None]) -> None:
    """Be stopped for longer than the lease, in the middle of everything, and go on."""
    process.control.now += LEASE_S + 1
    then()


def test_orders_that_waited_while_the_lease_lapsed_are_void_in_the_next_session(process: Process) -> None:
    process.sessions.turn()
    host = process.host
    spawn, stop = SpawnGuest(new_step(), guest()), StopGuest(new_step(), "a")
    host.send(spawn)
    host.send(stop)
    host.bus.step()  # the guest is there; what waited behind it has its turn only later
    stopped(process, process.sessions.turn)
    host.bus.run()
    assert [reply.step for reply in host.replies] == [spawn.step]
    assert [told.step for told in host.told_of(StepStatus) if told.state is StepState.UNKNOWN] == [stop.step]
    assert host.do(stop).error is None, "whoever runs the workflow may send it anew"


def test_while_its_lease_has_lapsed_nothing_is_carried_out(process: Process) -> None:
    process.sessions.turn()
    process.control.now += LEASE_S
    process.host.send(SpawnGuest(new_step(), guest()))
    process.host.bus.run()
    assert process.host.driver.list_guests() == {}
    assert process.host.told == [], "it would be sent again at once, and again"
    process.sessions.turn()
    process.host.bus.run()
    assert [told.state for told in process.host.told_of(StepStatus)] == [StepState.UNKNOWN]


def test_what_came_of_an_order_meanwhile_is_told_once_the_host_is_reported_again(process: Process) -> None:
    """Its guest may not be among those that are reported, and whoever looks after it has to reach the host."""
    process.sessions.turn()
    host, reports = process.host, []

    def stopped_while_it_spawns(_seconds: float) -> None:
        process.control.now += LEASE_S
        process.sessions.turn()
        reports.append(len(host.replies))
        process.control.now += LEASE_S

    host.driver.hypervisor.host = replace(host.driver.hypervisor.host, spawn_delay_s=1.0)
    host.driver.hypervisor.sleep = stopped_while_it_spawns
    host.send(SpawnGuest(new_step(), guest()))
    host.bus.run()
    assert host.replies == []
    process.sessions.turn()
    host.bus.run()
    assert [reply.error for reply in host.replies] == [None]
    assert reports == [0]


def test_an_order_of_an_earlier_attempt_is_refused(process: Process) -> None:
    """It comes from a control process whose work has gone over to another one."""
    process.sessions.turn()
    late, newer = StartGuest(new_step("late"), "a"), StopGuest(new_step("late"), "a")
    process.host.do(SpawnGuest(new_step("build"), guest()))
    process.host.do(newer)
    states = dict(process.host.driver.list_guests())
    refused = process.host.do(late)
    assert refused.step == late.step
    assert refused.error is not None
    assert dict(process.host.driver.list_guests()) == states
    assert process.host.do(StartGuest(new_step("another"), "a")).error is None
