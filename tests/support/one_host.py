# SPDX-License-Identifier: Apache-2.0
"""One simulated host with its agent on a manual bus, and a fake conductor that records messages."""

import itertools
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from kilonova.compute.agent import Agent
from kilonova.compute.concurrency_limits import HostLimits
from kilonova.compute.removals import RunningDeleted
from kilonova.compute.virt.fake import FakeDriver
from kilonova.messaging.bus import Sender
from kilonova.messaging.messages import (
    AgentMessage,
    Answer,
    AskStep,
    HostsRegistered,
    HostsStarted,
    Question,
    SpawnGuest,
    StepId,
    StepReply,
    StepStatus,
)
from kilonova.model.allocation_ratios import AllocationRatios
from kilonova.model.found_guest import Removal, RemovalReason
from kilonova.model.instance import GuestSpec
from kilonova.scenario.model import SimulatedHost
from support.manual_bus import ManualBus

T = TypeVar("T")
_ATTEMPTS = itertools.count(1)


def new_step(workflow: str = "") -> StepId:
    """Return the next step id of a workflow, by default of a new workflow."""
    attempt = next(_ATTEMPTS)
    return StepId(workflow or f"w{attempt}", "s", attempt)


def guest(uuid: str = "a", *, memory_mib: int = 512, **more: Any) -> GuestSpec:
    return GuestSpec(uuid=uuid, name=uuid, hostname=uuid, vcpus=1, memory_mib=memory_mib, root_gib=1, **more)


class OneHost:
    """Host defined by its files: a second object with the same name and folder is the same host after a crash."""

    def __init__(
        self,
        folder: Path,
        name: str = "node1",
        *,
        event: Callable[[str], None] = lambda _: None,
        driver: type[FakeDriver] = FakeDriver,
        may_act: Callable[[], bool] = lambda: True,
        running_deleted: RunningDeleted | None = None,
        limits: HostLimits | None = None,
        **facts: Any,
    ) -> None:
        self.name = name
        self.file = folder / f"{name}.json"
        self.told: list[Any] = []
        self.bus = ManualBus(event=event)
        self.bus.serve_conductor(self.told.append, self._answer)
        self.driver = driver(SimulatedHost(name, **facts), self.file, AllocationRatios())
        self.agent = Agent(name, self.driver, self.bus, may_act=may_act, running_deleted=running_deleted, limits=limits)
        self.bus.serve_agent(name, self.agent.accept)

    def send(self, message: AgentMessage) -> None:
        self.bus.cast(self.name, message)

    def do(self, message: AgentMessage) -> StepReply:
        """Send a message, run all work, and return the reply."""
        self.send(message)
        self.bus.run()
        return self.replies[-1]

    def ask(self, step: StepId, uuid: str = "a") -> StepStatus:
        """Ask for the status of a step and return the answer before any other work runs."""
        self.send(AskStep(step, uuid))
        self.bus.step()
        self.bus.step()
        return self.told_of(StepStatus)[-1]

    @property
    def replies(self) -> list[StepReply]:
        return self.told_of(StepReply)

    def told_of(self, kind: type[T]) -> list[T]:
        return [message for message in self.told if isinstance(message, kind)]

    def size_of(self, uuid: str = "a") -> int:
        """Memory of a guest in MiB."""
        found = self.driver.hypervisor.guests.guest(uuid)
        assert found is not None
        return found.memory_mib

    def _answer(self, question: Question, _speaker: Sender) -> Answer:
        assert isinstance(question, HostsStarted)
        now, found = datetime.now(UTC).replace(tzinfo=None), question.guests.items()
        return HostsRegistered(
            {host: tuple(Removal(uuid, RemovalReason.LEFT, now) for uuid in guests) for host, guests in found}
        )


def host_with_guest(folder: Path, spec: GuestSpec | None = None, **options: Any) -> OneHost:
    """Return a host that runs one guest, by default guest ``a``."""
    host = OneHost(folder, **options)
    host.do(SpawnGuest(new_step("build"), spec or guest()))
    return host
