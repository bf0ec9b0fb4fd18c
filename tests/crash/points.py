# SPDX-License-Identifier: Apache-2.0
"""Kill and disturbance points of a control process: before and after every transaction and message of workflows.

A watch counts the points that a process passes; instrumented bus and database classes report them.
"""

import threading
from collections import Counter
from collections.abc import Callable, Container
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

from crash.processes import die, stop
from kilonova.claims.commit import Bundle
from kilonova.compute.virt.fake.guests import GuestFile
from kilonova.conductor.workflow_engine.events import Phase
from kilonova.conductor.workflow_engine.step_outcome import StepOutcome
from kilonova.db import workflows
from kilonova.db.core.transaction import BatchedWrite
from kilonova.db.database import Database
from kilonova.errors import Unavailable
from kilonova.messaging.local import LocalBus
from kilonova.messaging.messages import (
    AgentMessage,
    ConductorMessage,
    MigrationProgress,
    StepReply,
    StepStatus,
    TaskReached,
)
from kilonova.model.instance import PowerState, TaskState
from support.fake_neutron import Fault

_BEGINS = {TaskState.REBOOT_STARTED, TaskState.REBOOT_STARTED_HARD}


class Moment(StrEnum):
    """Moment within a step. ``WORK_DONE``: the host has finished, but not sent its reply.

    ``BEFORE_CALL``, ``AFTER_CALL``: before and after a call to the network service.
    """

    BEFORE_COMMIT = "before its commit"
    AFTER_COMMIT = "after its commit"
    BEFORE_MESSAGE = "before its message"
    AFTER_MESSAGE = "after its message"
    WORKING = "while the host works"
    WORK_DONE = "before the reply"
    AFTER_REPLY = "after the reply"
    BEFORE_CALL = "before its call"
    AFTER_CALL = "after its call"


class Point(NamedTuple):
    """Moment in the ``nth`` execution of a step or undo step. An empty kind stands for any other transaction."""

    kind: str
    step: str
    undoing: bool
    moment: str
    nth: int = 0

    def __str__(self) -> str:
        what = f"{self.kind}: {'undo ' if self.undoing else ''}{self.step}" if self.kind else "another transaction"
        return f"{what}, {self.moment}" + (f" ({self.nth + 1})" if self.nth else "")


class InjectedError(Exception):
    """Failure that a test injects into a step."""


@dataclass
class Watch:
    """Counts points and kills the process. ``kill_at``: point of the kill; ``kill_after``: number of points before it.

    ``stop_at``: points at which the process stops, so that its parent copies what a kill there would leave;
    ``stopped_at``: those that were reached.
    ``breaks``: (kind, step) that always fails; ``refused``: it fails before the host's work instead of after it.
    ``interrupt_at``: (kind, step) during which ``interrupt`` is called once. ``fault``: kind, step and direction whose
    first call to the network service has a fault, and the fault.
    """

    kill_at: Point | None = None
    kill_after: int | None = None
    breaks: tuple[str, str] | None = None
    refused: bool = False
    interrupt_at: tuple[str, str] | None = None
    interrupt: Callable[[], None] | None = None
    fault: tuple[str, str, bool, Fault] | None = None
    stop_at: Container[Point] = ()
    armed: bool = True
    passed: list[Point] = field(default_factory=list)
    stopped_at: list[Point] = field(default_factory=list)
    database: "WatchedDatabase | None" = None
    folder: Path = Path()

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[Point] = Counter()

    def __call__(self, kind: str, step: str, undoing: bool, moment: Moment) -> None:
        """Record that a point is passed; die or stop if it is the point for it."""
        if not self.armed:
            return
        with self._lock:
            point = Point(kind, step, undoing, moment.value)
            point = point._replace(nth=self._counts[point])
            self._counts[point._replace(nth=0)] += 1
            self.passed.append(point)
            if point in self.stop_at:
                self.stopped_at.append(point)
                stop()
        if point == self.kill_at or len(self.passed) == self.kill_after:
            die()

    def disturb(self, kind: str, step: str) -> None:
        """Call ``interrupt`` if this is the step to interrupt."""
        with self._lock:
            act, self.interrupt = (
                (self.interrupt, None) if self.interrupt_at == (kind, step) else (None, self.interrupt)
            )
        if act is not None and self.armed:
            act()

    def take_fault(self, kind: str, step: str, *, undoing: bool) -> Fault | None:
        """Return the fault of the next call to the network service; each fault is returned once."""
        with self._lock:
            if not self.armed or self.fault is None or self.fault[:3] != (kind, step, undoing):
                return None
            fault, self.fault = self.fault[3], None
            return fault

    def is_broken(self, kind: str, step: str) -> bool:
        return self.armed and self.breaks == (kind, step)

    def whose(self, message: Any) -> tuple[str, str, bool] | None:
        """Return the kind, step and direction of the workflow that a message belongs to."""
        assert self.database is not None
        with self.database.read() as connection:
            row = workflows.get(connection, message.step.workflow)
        return None if row is None else (row.kind, message.step.step, row.undoing)


class WatchedDatabase(Database):
    """Database that reports every transaction whose caller waits for it."""

    watch: Watch

    def write_batched(self, run: BatchedWrite[Any, Any], item: Any) -> Any:
        steps = list(_steps(item))
        for kind, step, undoing in steps:
            if not undoing and kind:
                if (kind, step) not in _SENDING:
                    self.watch.disturb(kind, step)
                if self.watch.is_broken(kind, step) and not _turns_back(item):
                    raise InjectedError(f"{kind}: {step}")
            self.watch(kind, step, undoing, Moment.BEFORE_COMMIT)
        outcome = super().write_batched(run, item)
        for each in steps:
            self.watch(*each, Moment.AFTER_COMMIT)
        return outcome


class WatchedBus(LocalBus):
    """Bus that reports every message of a workflow. ``away``: unreachable hosts, whose messages are dropped as well."""

    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self._watch = watch
        self.away: set[str] = set()

    def hears(self, host: str) -> bool:
        return host not in self.away and super().hears(host)

    def cast(self, host: str, message: AgentMessage) -> None:
        if host in self.away:
            raise Unavailable(f"No agent serves host {host}.")
        whose = self._watch.whose(message)
        if whose is not None:
            self._watch(*whose, Moment.BEFORE_MESSAGE)
        if whose is not None and self._watch.refused and not whose[2] and self._watch.is_broken(*whose[:2]):
            self._refuse(host, message)
        else:
            super().cast(host, message)
        if whose is not None:
            self._watch(*whose, Moment.AFTER_MESSAGE)

    def _refuse(self, host: str, message: AgentMessage) -> None:
        """Send the host's reply that it refuses the step."""
        uuid, file = message.instance_uuid, self._watch.folder / "hypervisors" / f"{host}.json"
        place = GuestFile(host, file).places.get(uuid)
        state = PowerState.NOSTATE if place is None else place.power_state
        self.run_in_conductor(lambda: self.tell(StepReply(message.step, host, uuid, power_state=state)))

    def tell(self, message: ConductorMessage, *, urgent: bool = False) -> None:
        if getattr(message, "host", None) in self.away:
            return
        if isinstance(message, StepReply | StepStatus | MigrationProgress) or is_at_work(message):
            whose = self._watch.whose(message)
            if whose is not None:
                self._tell_of(whose, message, urgent=urgent)
                return
        super().tell(message, urgent=urgent)

    def _tell_of(self, whose: tuple[str, str, bool], message: Any, *, urgent: bool) -> None:
        kind, step, undoing = whose
        if isinstance(message, MigrationProgress) or is_at_work(message):
            if not undoing:
                self._watch.disturb(kind, step)
            self._watch(*whose, Moment.WORKING)
            super().tell(message, urgent=urgent)
            return
        reply = message if isinstance(message, StepReply) else message.reply
        if reply is not None and not undoing and self._watch.is_broken(kind, step):
            reply = replace(reply, error="The driver failed.", details="as a test wants it")
            message = reply if isinstance(message, StepReply) else replace(message, reply=reply)
        if not undoing:
            self._watch.disturb(kind, step)
        self._watch(*whose, Moment.WORK_DONE)
        if message.host in self.away:
            return
        super().tell(message, urgent=urgent)
        self._watch(*whose, Moment.AFTER_REPLY)


#: Steps that wait for a host, filled by the matrix from observed points, so that it can interrupt them in that wait.
_SENDING: set[tuple[str, str]] = set()


def sending(kind: str, step: str) -> bool:
    """Return whether a step was observed to wait for a host."""
    return (kind, step) in _SENDING


def note_sending(points: list[Point]) -> None:
    """Record the steps that wait for a host. A step of which only the undo step sends a message does not count."""
    _SENDING.update(
        (point.kind, point.step) for point in points if point.moment == Moment.AFTER_MESSAGE.value and not point.undoing
    )


def _steps(item: Any) -> list[tuple[str, str, bool]]:
    if isinstance(item, Bundle):
        return [(item.claims[0].workflow.kind, "claim", False)]
    if isinstance(item, tuple) and item and isinstance(item[0], StepOutcome):
        return [(turn.run.row.kind, turn.run.row.step, turn.run.row.undoing) for turn in item]
    return [("", "", False)]


def _turns_back(item: Any) -> bool:
    """Return whether the outcomes report a failed step; that commit must succeed for the rollback to start."""
    return isinstance(item, tuple) and any(turn.phase not in {Phase.STEP_DONE, Phase.DONE} for turn in item)


def is_at_work(message: ConductorMessage) -> bool:
    """Return whether the message reports that the hypervisor is about to start; a queued order was reported before."""
    return isinstance(message, TaskReached) and message.task in _BEGINS
