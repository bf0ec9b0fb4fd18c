# SPDX-License-Identifier: Apache-2.0
import threading

import pytest

from kilonova.errors import Unavailable
from kilonova.messaging.bus import Work
from kilonova.messaging.lanes import AgentLane, lane_of
from kilonova.messaging.local import LocalBus
from kilonova.messaging.messages import (
    AbortLiveMigration,
    AgentMessage,
    AskStep,
    DestroyGuest,
    ForceCompleteLiveMigration,
    LiveMigrate,
    MigrationProgress,
    Orphans,
    StepId,
    StepReply,
    StopGuest,
)
from support.waiting import wait_until


def nothing_to_say(*_asked: object) -> Orphans:
    return Orphans()


def progress(uuid: str) -> MigrationProgress:
    return MigrationProgress(StepId("w", "s", 1), "node1", uuid)


def test_what_a_handler_raises_is_logged_and_the_next_message_comes(caplog: pytest.LogCaptureFixture) -> None:
    bus = LocalBus()
    came = threading.Event()

    def handle(message: object) -> None:
        if message == progress("bad"):
            raise ZeroDivisionError
        came.set()

    bus.serve_conductor(handle, lambda *_: Orphans())
    bus.tell(progress("bad"))
    bus.tell(progress("good"))
    assert came.wait(10)
    bus.close()
    assert "A message could not be handled" in caplog.text


def test_without_a_conductor_nobody_listens() -> None:
    bus = LocalBus()
    with pytest.raises(Unavailable):
        bus.tell(progress("a"))
    bus.close()


def test_closing_waits_for_what_runs() -> None:
    bus = LocalBus()
    started, done = threading.Event(), []

    def work() -> None:
        started.set()
        threading.Event().wait(0.1)
        done.append(1)

    bus.run_in_conductor(work)
    assert started.wait(10)
    bus.close()
    assert done == [1]


def test_a_reply_becomes_a_fault_that_names_the_host_to_administrators_only() -> None:
    fault = StepReply(StepId("w", "s", 1), "node1", "a", "The disk is full.", "device sdb").as_fault()
    assert (fault.code, fault.message) == (500, "The disk is full.")
    assert fault.details == "Host: node1\ndevice sdb"


def test_interrupts_and_deletes_do_not_wait_behind_moves_and_builds() -> None:
    bus, release = LocalBus(), threading.Event()
    started: set[str] = set()

    def accept(message: AgentMessage) -> Work:
        def run() -> None:
            started.add(message.instance_uuid)
            if not message.instance_uuid.startswith("urgent"):
                release.wait(30)

        return Work(lane_of(message), run)

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
    bus.close()


def test_urgent_work_of_the_conductor_does_not_wait_behind_other_work() -> None:
    bus, release, came = LocalBus(), threading.Event(), threading.Event()
    urgent = progress("urgent")
    bus.serve_conductor(
        lambda message: came.set() if message == urgent else release.wait(30) and None, lambda *_: Orphans()
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
    bus.close()


def test_what_waits_behind_a_piece_of_work_is_done_in_its_own_lane() -> None:
    bus = LocalBus()
    threads: list[str] = []
    done = threading.Event()

    def delete() -> None:
        threads.append(threading.current_thread().name)
        done.set()

    def move() -> Work:
        threads.append(threading.current_thread().name)
        return Work(AgentLane.DELETE, delete)

    bus.serve_agent("node1", lambda _: Work(AgentLane.MOVE, move))
    bus.cast("node1", StopGuest(StepId("w", "s", 1), "a"))
    assert done.wait(10)
    bus.close()
    assert [name.rpartition("_")[0] for name in threads] == ["agent-move", "agent-delete"]
