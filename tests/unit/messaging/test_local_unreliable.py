# SPDX-License-Identifier: Apache-2.0
"""What holds however badly messages travel, as long as the conductor asks again: with the real agent and parking."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kilonova.compute.agent import Agent
from kilonova.compute.virt.fake import FakeDriver
from kilonova.conductor.workflow_engine.effects import SendToAgent
from kilonova.conductor.workflow_engine.pending_replies import PendingReplies
from kilonova.messaging.local import LocalBus
from kilonova.messaging.messages import (
    AgentMessage,
    DestroyGuest,
    HostsRegistered,
    RebootGuest,
    SpawnGuest,
    StartGuest,
    StepId,
    StepReply,
    StepStatus,
    StopGuest,
)
from support.cell import PLAIN, host
from support.manual_bus import ManualBus
from support.one_host import guest
from support.rabbit_ends import RabbitEnds
from support.unreliable_bus import UnreliableBus

_GUESTS = tuple(f"guest{number}" for number in range(6))


def orders(uuid: str) -> tuple[Callable[[StepId], AgentMessage], ...]:
    """What is done to a guest, one after the other."""
    return (
        lambda step: SpawnGuest(step, guest(uuid)),
        lambda step: StopGuest(step, uuid),
        lambda step: StartGuest(step, uuid),
        lambda step: RebootGuest(step, uuid),
        lambda step: DestroyGuest(step, uuid),
    )


class CountingDriver(FakeDriver):
    def __init__(self, folder: Path) -> None:
        super().__init__(host("node1"), folder / "node1.json", PLAIN)
        self.done: list[tuple[str, str]] = []

    def spawn(self, guest: Any) -> None:
        self.done.append(("spawn", guest.uuid))
        super().spawn(guest)

    def stop(self, uuid: str, timeout: Any = None) -> None:
        self.done.append(("stop", uuid))
        super().stop(uuid, timeout)

    def start(self, uuid: str) -> None:
        self.done.append(("start", uuid))
        super().start(uuid)

    def soft_reboot(self, uuid: str, _patience: Any) -> None:
        self.done.append(("reboot", uuid))

    def destroy(self, uuid: str) -> None:
        self.done.append(("destroy", uuid))
        super().destroy(uuid)


@dataclass
class Row:
    uuid: str
    attempt: int


@dataclass
class Run:
    """As much of a workflow at a step as messages need."""

    row: Row
    instance_uuid: str

    @property
    def step_id(self) -> StepId:
        return StepId(self.row.uuid, "step", self.row.attempt)


class Sender:
    """Has one order after the other carried out for each guest, and asks when no reply comes."""

    def __init__(self, bus: Any) -> None:
        self._bus = bus
        self.clock = 0.0
        self.replies: list[StepReply] = []
        self.parking = PendingReplies(bus, lambda: True, lambda: self.clock, 60.0)
        self._left = {uuid: list(orders(uuid)) for uuid in _GUESTS}
        self._under_way: dict[str, tuple[Run, SendToAgent]] = {}
        self._lock = threading.Lock()
        bus.serve_conductor(self.handle, lambda *_: HostsRegistered())

    @property
    def is_done(self) -> bool:
        return not any(self._left.values()) and not len(self.parking)

    def begin(self) -> None:
        for uuid in _GUESTS:
            self._next(uuid)

    def ask(self) -> None:
        """Let the time pass after which agents are asked."""
        self.clock += 61
        for lost in self.parking.ask_overdue():  # too many questions got lost: as a workflow that begins its step again
            run, effect = self._under_way[lost.instance_uuid]
            self.parking.send(run, effect, lambda: True, ask=True)  # type: ignore[arg-type]

    def handle(self, message: Any) -> None:
        reply = self.parking.take_status(message) if isinstance(message, StepStatus) else message
        if isinstance(reply, StepReply) and self.parking.take(reply):
            with self._lock:
                self.replies.append(reply)
            self._next(reply.instance_uuid)

    def _next(self, uuid: str) -> None:
        left = self._left[uuid]
        if left:
            number = len(left)
            run = Run(Row(f"workflow {uuid} {number}", 1), uuid)
            effect = SendToAgent("node1", left.pop(0)(run.step_id))
            self._under_way[uuid] = (run, effect)
            self.parking.send(run, effect, lambda: True, ask=False)  # type: ignore[arg-type]


def settle(bus: UnreliableBus) -> None:
    """Let happen what was set off, but for what the bus holds back."""
    if isinstance(bus.inner, ManualBus):
        bus.inner.run()
        return
    before = -1
    while before != bus.carried:
        before = bus.carried
        time.sleep(0.02 if isinstance(bus.inner, LocalBus) else 0.1)


@pytest.fixture(params=[(ManualBus, seed) for seed in range(20)] + [(LocalBus, 1), (RabbitEnds, 1)])
def unreliable(request: pytest.FixtureRequest) -> Iterator[UnreliableBus]:
    kind, seed = request.param
    bus = kind(request.getfixturevalue("broker")) if kind is RabbitEnds else kind()
    made = UnreliableBus(bus, seed)
    yield made
    made.close()


def test_each_step_is_carried_out_once_and_everything_ends(unreliable: UnreliableBus, tmp_path: Path) -> None:
    driver = CountingDriver(tmp_path)
    agent = Agent("node1", driver, unreliable)
    unreliable.serve_agent("node1", agent.accept)
    sender = Sender(unreliable)
    sender.begin()
    for _ in range(500):
        settle(unreliable)
        unreliable.release()
        if sender.is_done:
            break
        sender.ask()
    else:
        pytest.fail(f"{len(sender.parking)} steps never ended")
    unreliable.release()
    settle(unreliable)
    assert Counter(driver.done) == Counter(
        (what, uuid) for uuid in _GUESTS for what in ("spawn", "stop", "start", "reboot", "destroy")
    )
    for uuid in _GUESTS:
        assert [what for what, each in driver.done if each == uuid] == ["spawn", "stop", "start", "reboot", "destroy"]
    assert [reply.error for reply in sender.replies] == [None] * 5 * len(_GUESTS)
    assert min(unreliable.counts.values()) > 5, "the bus was not that bad"
