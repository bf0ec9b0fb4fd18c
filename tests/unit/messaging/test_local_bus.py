# SPDX-License-Identifier: Apache-2.0
import threading

import pytest

from kilonova.errors import Unavailable
from kilonova.messaging.bus import Work
from kilonova.messaging.local import LocalBus
from kilonova.messaging.messages import (
    HostsRegistered,
    MigrationProgress,
    StepId,
    StepReply,
    StopGuest,
)
from kilonova.messaging.thread_pools import AgentPool


def progress(uuid: str) -> MigrationProgress:
    return MigrationProgress(StepId("w", "s", 1), "node1", uuid)


def test_what_a_handler_raises_is_logged_and_the_next_message_comes(caplog: pytest.LogCaptureFixture) -> None:
    bus = LocalBus()
    came = threading.Event()

    def handle(message: object) -> None:
        if message == progress("bad"):
            raise ZeroDivisionError
        came.set()

    bus.serve_conductor(handle, lambda *_: HostsRegistered())
    bus.tell(progress("bad"))
    bus.tell(progress("good"))
    assert came.wait(10)
    bus.close()
    assert "The handling of a message failed" in caplog.text


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


def test_what_waits_behind_a_piece_of_work_is_done_in_its_own_lane() -> None:
    bus = LocalBus()
    threads: list[str] = []
    done = threading.Event()

    def delete() -> None:
        threads.append(threading.current_thread().name)
        done.set()

    def move() -> list[Work]:
        threads.append(threading.current_thread().name)
        return [Work(AgentPool.DELETE, delete)]

    bus.serve_agent("node1", lambda _: Work(AgentPool.MOVE, move))
    bus.cast("node1", StopGuest(StepId("w", "s", 1), "a"))
    assert done.wait(10)
    bus.close()
    assert [name.rpartition("_")[0] for name in threads] == ["agent-move", "agent-delete"]
