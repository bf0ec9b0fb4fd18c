# SPDX-License-Identifier: Apache-2.0
import threading
from typing import Any

import pytest

from kilonova.messaging.messages import AskConsoleOutput, CallOff, DestroyGuest, PauseGuest, SpawnGuest, StopGuest
from kilonova.messaging.thread_pools import AgentPool, ConductorPool, ThreadPools, pool_of
from support.waiting import wait_until


@pytest.mark.parametrize(
    ("kind", "pool"),
    [
        (AskConsoleOutput, AgentPool.QUESTION),
        (CallOff, AgentPool.DELETE),
        (DestroyGuest, AgentPool.DELETE),
        (StopGuest, AgentPool.MOVE),
        (SpawnGuest, AgentPool.ORDINARY),
        (PauseGuest, AgentPool.ORDINARY),
    ],
)
def test_the_kind_of_a_message_decides_where_it_waits(kind: type[Any], pool: AgentPool) -> None:
    assert pool_of(kind.__new__(kind)) is pool


def test_work_of_one_pool_waits_in_order_and_delays_no_other_pool(caplog: pytest.LogCaptureFixture) -> None:
    pools = ThreadPools("test", {ConductorPool.URGENT: 1, ConductorPool.BLOCKING: 1})
    blocked, release, ended = threading.Event(), threading.Event(), threading.Event()
    done: list[str] = []

    def block() -> None:
        blocked.set()
        release.wait(10)

    def fail() -> None:
        done.append("failed")
        raise ZeroDivisionError

    pools.run(ConductorPool.BLOCKING, block)
    pools.run(ConductorPool.BLOCKING, fail)
    pools.run(ConductorPool.BLOCKING, ended.set)
    assert blocked.wait(10)
    assert pools.waiting == {ConductorPool.URGENT: 0, ConductorPool.BLOCKING: 2}
    urgent = threading.Event()
    pools.run(ConductorPool.URGENT, urgent.set)
    assert urgent.wait(10)
    release.set()
    assert ended.wait(10), "an exception ends neither the thread nor the queue"
    pools.close()
    assert done == ["failed"]
    assert "ZeroDivisionError" in caplog.text


def is_closed(pools: ThreadPools[ConductorPool]) -> bool:
    try:
        pools.run(ConductorPool.BLOCKING, lambda: None)
    except RuntimeError:
        return True
    return False


def test_closing_drops_what_waits_and_waits_for_what_runs() -> None:
    pools = ThreadPools("test", {ConductorPool.BLOCKING: 1})
    blocked, release = threading.Event(), threading.Event()
    done: list[str] = []

    def block() -> None:
        blocked.set()
        release.wait(10)
        done.append("running")

    pools.run(ConductorPool.BLOCKING, block)
    pools.run(ConductorPool.BLOCKING, lambda: done.append("queued"))
    assert blocked.wait(10)
    closing = threading.Thread(target=pools.close)
    closing.start()
    wait_until(lambda: is_closed(pools), "the pools to take no more work")
    assert closing.is_alive(), "it waits for the running work"
    release.set()
    closing.join(10)
    assert done == ["running"]
