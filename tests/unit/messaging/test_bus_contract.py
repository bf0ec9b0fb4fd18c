# SPDX-License-Identifier: Apache-2.0
"""What both ends rely on, whichever bus there is; that of the tests is held to it like the others."""

import threading
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

import pytest

from kilonova.errors import Unavailable
from kilonova.messaging.bus import Sender, Work
from kilonova.messaging.local import LocalBus
from kilonova.messaging.messages import (
    AbortLiveMigration,
    AgentMessage,
    Answer,
    AskMetadata,
    AskStep,
    DestroyGuest,
    ForceCompleteLiveMigration,
    GuestMetadata,
    HostsRegistered,
    HostsStarted,
    LiveMigrate,
    MigrationProgress,
    PasswordPosted,
    PostPassword,
    Question,
    StepId,
    StopGuest,
)
from kilonova.messaging.thread_pools import AgentPool, pool_of
from kilonova.model.found_guest import Removal, RemovalReason
from kilonova.model.posted_password import PostResult
from support.manual_bus import ManualBus
from support.rabbit_ends import RabbitEnds
from support.waiting import wait_until

STEP = StepId("w", "s", 1)
ORPHANS = HostsRegistered({"node1": (Removal("a", RemovalReason.LEFT, datetime.fromisoformat("2026-01-01")),)})


def progress(host: str) -> MigrationProgress:
    return MigrationProgress(STEP, host, "a")


@pytest.fixture(params=[LocalBus, ManualBus, RabbitEnds])
def bus(request: pytest.FixtureRequest) -> Iterator[Any]:
    if request.param is RabbitEnds:
        made: Any = RabbitEnds(request.getfixturevalue("broker"), answered_within_s=1.0)
    else:
        made = request.param()
    yield made
    made.close()


def settle(bus: Any, done: Callable[[], object]) -> None:
    """Let everything happen that was set off."""
    if isinstance(bus, ManualBus):
        bus.run()
    wait_until(done, "it has happened")


def test_a_host_without_an_agent_cannot_be_reached(bus: Any) -> None:
    bus.serve_agent("node2", lambda _: None)
    with pytest.raises(Unavailable):
        bus.cast("node1", StopGuest(STEP, "a"))


def test_without_a_conductor_nobody_answers(bus: Any) -> None:
    with pytest.raises(Unavailable):
        bus.ask(HostsStarted(()))


def test_messages_are_accepted_in_order_and_by_the_agent_of_their_host(bus: Any) -> None:
    came: list[tuple[str, AgentMessage]] = []
    for host in ("node1", "node2"):
        bus.serve_agent(host, lambda message, host=host: came.append((host, message)))
    sent = [(f"node{1 + number % 2}", StopGuest(STEP, str(number))) for number in range(20)]
    for host, message in sent:
        bus.cast(host, message)
    settle(bus, lambda: len(came) == 20)
    assert came == sent


def test_an_agent_that_starts_anew_takes_the_messages_from_then_on(bus: Any) -> None:
    came: list[str] = []
    for name in ("before", "after"):
        bus.serve_agent("node1", lambda _, name=name: came.append(name))
        bus.cast("node1", StopGuest(STEP, "a"))
        settle(bus, lambda name=name: name in came)
    assert came == ["before", "after"]


def test_work_is_done_and_then_what_waits_behind_it(bus: Any) -> None:
    done: list[int] = []

    def work(number: int) -> Work:
        def run() -> list[Work]:
            done.append(number)
            return [work(number + 1)] if number < 9 else []

        return Work(list(AgentPool)[number % 4], run)

    bus.serve_agent("node1", lambda _: work(0))
    bus.cast("node1", StopGuest(STEP, "a"))
    settle(bus, lambda: len(done) == 10)
    assert done == list(range(10))


def test_what_agents_tell_and_what_the_conductor_runs_itself_comes_once(bus: Any) -> None:
    came: list[object] = []
    bus.serve_conductor(came.append, lambda question, sender: ORPHANS)
    bus.tell(progress("node1"))
    bus.tell(progress("node2"), urgent=True)
    for number, run in enumerate((bus.run_in_conductor, bus.run_urgently, bus.run_blocking)):
        run(lambda number=number: came.append(number))
    settle(bus, lambda: len(came) == 5)
    assert sorted(map(str, came)) == sorted(map(str, [0, 1, 2, progress("node1"), progress("node2")]))
    assert bus.ask(HostsStarted(())) == ORPHANS


def test_metadata_of_a_guest_arrive_as_they_are(bus: Any) -> None:
    files = {"openstack/latest/user_data": bytes(range(256)) * 256, "openstack/latest/meta_data.json": b"{}"}
    asked: list[Question] = []

    def answer(question: Question, _: Sender) -> Answer:
        asked.append(question)
        return GuestMetadata.of(files) if isinstance(question, AskMetadata) else PasswordPosted(PostResult.STORED)

    bus.serve_conductor(lambda _: None, answer)
    question, post = AskMetadata("node1", "net", "fd00::9", "m"), PostPassword("node1", "net", "fd00::9", "m", "abc=")
    got = bus.ask(question)
    assert isinstance(got, GuestMetadata)
    assert got.files() == files
    assert bus.ask(post) == PasswordPosted(PostResult.STORED)
    assert asked == [question, post]


# --- buses with threads: what is urgent overtakes all else


@pytest.fixture(params=[LocalBus, RabbitEnds])
def threaded(request: pytest.FixtureRequest) -> Iterator[Any]:
    made: Any = RabbitEnds(request.getfixturevalue("broker")) if request.param is RabbitEnds else LocalBus()
    yield made
    made.close()


def test_interrupts_and_deletes_do_not_wait_behind_moves_and_builds(threaded: Any) -> None:
    bus, release = threaded, threading.Event()
    started: set[str] = set()

    def accept(message: AgentMessage) -> Work:
        def run() -> None:
            started.add(message.instance_uuid)
            if not message.instance_uuid.startswith("urgent"):
                release.wait(30)

        return Work(pool_of(message), run)

    bus.serve_agent("node1", accept)
    step = StepId("w", "s", 1)
    for number in range(100):
        bus.cast("node1", LiveMigrate(step, f"move {number}", "node2"))
        bus.cast("node1", StopGuest(step, f"stop {number}"))
    for message in (
        DestroyGuest(step, "urgent delete"),
        AbortLiveMigration(step, "urgent abort"),
        ForceCompleteLiveMigration(step, "urgent completion"),
        AskStep(step, "urgent question"),
    ):
        bus.cast("node1", message)
        wait_until(lambda: message.instance_uuid in started, message.instance_uuid)  # noqa: B023
    assert len(started) < 200
    release.set()


def test_urgent_work_of_the_conductor_does_not_wait_behind_other_work(threaded: Any) -> None:
    bus, release, came = threaded, threading.Event(), threading.Event()
    urgent = progress("urgent")
    bus.serve_conductor(
        lambda message: came.set() if message == urgent else release.wait(30) and None, lambda *_: HostsRegistered()
    )
    for _ in range(50):
        bus.tell(progress("slow"))
        bus.run_blocking(lambda: release.wait(30) and None)
    done = threading.Event()
    bus.run_urgently(done.set)
    bus.tell(urgent, urgent=True)
    assert done.wait(10)
    assert came.wait(10)
    release.set()
