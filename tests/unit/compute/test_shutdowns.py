# SPDX-License-Identifier: Apache-2.0
"""Guests are asked to shut down before they are powered off, and wait for nobody who would have them gone."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kilonova.compute.agent import Agent
from kilonova.compute.shutdowns import ShutdownTimes
from kilonova.compute.virt.fake import FakeDriver
from kilonova.messaging.local import LocalBus
from kilonova.messaging.messages import (
    AgentMessage,
    DestroyGuest,
    MoveAway,
    RebootGuest,
    RescueGuest,
    StartGuest,
    StepReply,
    StopGuest,
    TaskReached,
)
from kilonova.model.instance import PowerState
from support.cell import PLAIN, host
from support.one_host import guest, new_step
from support.waiting import wait_until

_NEVER = -1.0


class Served:
    """One host on a bus whose pools have threads of their own."""

    def __init__(self, folder: Path, times: ShutdownTimes, **facts: Any) -> None:
        self.told: list[Any] = []
        self.bus = LocalBus()
        self.bus.serve_conductor(self.told.append, lambda _question, _speaker: pytest.fail("nobody asks"))
        self.driver = FakeDriver(host("node1", **facts), folder / "node1.json", PLAIN)
        self.agent = Agent("node1", self.driver, self.bus, shutdown_times=times)
        self.bus.serve_agent("node1", self.agent.accept)
        self.driver.spawn(guest("a"))

    def send(self, message: AgentMessage) -> None:
        self.bus.cast("node1", message)

    def replies(self, count: int, at_most_s: float = 10.0) -> list[StepReply]:
        """Wait for so many replies."""

        def found() -> list[StepReply]:
            return [message for message in self.told if isinstance(message, StepReply)]

        wait_until(lambda: len(found()) >= count, f"{count} replies", at_most_s=at_most_s)
        return found()


@pytest.fixture
def serve(tmp_path: Path) -> Any:
    served: list[Served] = []

    def start(times: ShutdownTimes = ShutdownTimes(), **facts: Any) -> Served:  # noqa: B008 - it is frozen
        served.append(Served(tmp_path, times, **facts))
        return served[-1]

    yield start
    for each in served:
        each.agent.stop()
        each.bus.close()


Serve = Callable[..., Served]


ASKED_FIRST: dict[str, Callable[[], AgentMessage]] = {
    "stop": lambda: StopGuest(new_step(), "a"),
    "reboot": lambda: RebootGuest(new_step(), "a"),
    "move away": lambda: MoveAway(new_step(), "a", "node2"),
    "rescue": lambda: RescueGuest(new_step(), guest("a"), "helper"),
}


@pytest.mark.parametrize("order", ASKED_FIRST.values(), ids=ASKED_FIRST)
def test_a_guest_that_obeys_has_the_time_that_it_takes(serve: Serve, order: Callable[[], AgentMessage]) -> None:
    served = serve(shutdown_delay_s=0.3)
    began = time.monotonic()
    served.send(order())
    (reply,) = served.replies(1)
    assert time.monotonic() - began >= 0.3
    assert reply.error is None
    assert served.driver.list_guests() == {"a": reply.power_state}


@pytest.mark.parametrize(
    ("order", "times", "state"),
    [
        (StopGuest, ShutdownTimes(stop_s=0.2), PowerState.SHUTDOWN),
        (RebootGuest, ShutdownTimes(reboot_s=0.2), PowerState.RUNNING),
    ],
)
def test_a_guest_that_does_not_obey_is_powered_off_in_the_end(
    serve: Serve, order: Any, times: ShutdownTimes, state: PowerState
) -> None:
    served = serve(times, shutdown_delay_s=_NEVER)
    began = time.monotonic()
    served.send(order(new_step(), "a"))
    assert [reply.power_state for reply in served.replies(1)] == [state]
    assert time.monotonic() - began >= 0.2


@pytest.mark.parametrize("limit_s", [0.0, 0.3])
@pytest.mark.parametrize(
    "order",
    [
        lambda limit_s: StopGuest(new_step(), "a", timeout_s=limit_s),
        lambda limit_s: MoveAway(new_step(), "a", "node2", timeout_s=limit_s),
        lambda limit_s: RescueGuest(new_step(), guest("a"), "helper", timeout_s=limit_s),
    ],
)
def test_an_order_may_say_how_long_a_guest_may_take(serve: Serve, order: Any, limit_s: float) -> None:
    served = serve(shutdown_delay_s=_NEVER)
    began = time.monotonic()
    served.send(order(limit_s))
    assert served.replies(1)[0].error is None
    assert limit_s <= time.monotonic() - began < limit_s + 5


@pytest.mark.parametrize("first", [StopGuest, RebootGuest])
@pytest.mark.parametrize("pause_s", [0.0, 0.1])
@pytest.mark.parametrize(
    ("second", "state"),
    [
        (lambda: DestroyGuest(new_step(), "a"), PowerState.NOSTATE),
        (lambda: RebootGuest(new_step(), "a", hard=True), PowerState.RUNNING),
    ],
)
def test_a_delete_and_a_hard_reboot_wait_for_no_guest(
    serve: Serve, first: Any, second: Callable[[], AgentMessage], state: PowerState, pause_s: float
) -> None:
    served = serve(shutdown_delay_s=_NEVER)
    served.send(first(new_step(), "a"))
    time.sleep(pause_s)
    order = second()
    served.send(order)
    replies = {reply.step: reply for reply in served.replies(2)}
    assert [reply.error for reply in replies.values()] == [None, None]
    assert replies[order.step].power_state is state


def test_other_orders_wait_for_it(serve: Serve) -> None:
    served = serve(shutdown_delay_s=0.3)
    served.send(StopGuest(new_step(), "a"))
    served.send(StartGuest(new_step(), "a"))
    assert {reply.power_state for reply in served.replies(2)} == {PowerState.SHUTDOWN, PowerState.RUNNING}
    assert served.driver.list_guests() == {"a": PowerState.RUNNING}


def test_an_agent_that_is_told_to_end_leaves_the_guest_as_it_is(serve: Serve) -> None:
    served = serve(shutdown_delay_s=_NEVER)
    served.send(RebootGuest(new_step(), "a"))
    wait_until(lambda: any(isinstance(each, TaskReached) for each in served.told), "it begins")
    served.agent.stop()
    served.bus.close()
    assert not [message for message in served.told if isinstance(message, StepReply)]
    assert served.driver.list_guests() == {"a": PowerState.RUNNING}
