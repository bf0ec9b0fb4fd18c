# SPDX-License-Identifier: Apache-2.0
"""The points at which a control process can be killed or disturbed: around every transaction and message of workflows.

A watch counts the points that a process passes; the bus and the database of the process tell it.
"""

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

from crash.processes import die
from kilonova.claims.commit import Bundle
from kilonova.compute.virt.fake.guests import GuestFile
from kilonova.conductor.workflow_engine.events import Phase
from kilonova.conductor.workflow_engine.step_outcome import StepOutcome
from kilonova.conductor.workflows.registry import REGISTRY
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

_BEGINS = {TaskState.REBOOT_STARTED, TaskState.REBOOT_STARTED_HARD}


class Moment(StrEnum):
    """Where in a step. ``WORK_DONE``: the host has done it, the reply is not sent."""

    BEFORE_COMMIT = "before its commit"
    AFTER_COMMIT = "after its commit"
    BEFORE_MESSAGE = "before its message"
    AFTER_MESSAGE = "after its message"
    WORKING = "while the host works"
    WORK_DONE = "before the reply"
    AFTER_REPLY = "after the reply"


class Point(NamedTuple):
    """The ``nth`` time that a step is done, or undone, a moment of it. Without a kind: of any other transaction."""

    kind: str
    step: str
    undoing: bool
    moment: str
    nth: int = 0

    def __str__(self) -> str:
        what = f"{self.kind}: {'undo ' if self.undoing else ''}{self.step}" if self.kind else "another transaction"
        return f"{what}, {self.moment}" + (f" ({self.nth + 1})" if self.nth else "")


class InjectedError(Exception):
    """A step breaks because a test wants it to."""


@dataclass
class Watch:
    """``kill_at``: where the process dies; ``kill_after``: how many points it passes before it dies.

    ``breaks``: (kind, step) that never succeeds; ``refused``: hosts do not begin with it, instead of doing it first.
    ``interrupt_at``: (kind, step) during which ``interrupt`` is called, once.
    """

    kill_at: Point | None = None
    kill_after: int | None = None
    breaks: tuple[str, str] | None = None
    refused: bool = False
    interrupt_at: tuple[str, str] | None = None
    interrupt: Callable[[], None] | None = None
    armed: bool = True
    passed: list[Point] = field(default_factory=list)
    database: "WatchedDatabase | None" = None
    folder: Path = Path()

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[Point] = Counter()

    def __call__(self, kind: str, step: str, undoing: bool, moment: Moment) -> None:
        """A point is passed."""
        if not self.armed:
            return
        with self._lock:
            point = Point(kind, step, undoing, moment.value)
            point = point._replace(nth=self._counts[point])
            self._counts[point._replace(nth=0)] += 1
            self.passed.append(point)
        if point == self.kill_at or len(self.passed) == self.kill_after:
            die()

    def disturb(self, kind: str, step: str) -> None:
        """Somebody interrupts what is under way, if it is to be now."""
        with self._lock:
            act, self.interrupt = (
                (self.interrupt, None) if self.interrupt_at == (kind, step) else (None, self.interrupt)
            )
        if act is not None and self.armed:
            act()

    def is_broken(self, kind: str, step: str) -> bool:
        return self.armed and self.breaks == (kind, step)

    def whose(self, message: Any) -> tuple[str, str, bool] | None:
        """Return the kind, step and direction of the workflow of a message."""
        assert self.database is not None
        with self.database.read() as connection:
            row = workflows.get(connection, message.step.workflow)
        return None if row is None else (row.kind, message.step.step, row.undoing)


class WatchedDatabase(Database):
    """Tells of every transaction that somebody waits for."""

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
    """Tells of every message of a workflow. ``away``: hosts that nothing reaches, and of which nothing is heard."""

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
        """Have the host do nothing, and say so."""
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


#: Filled by the matrix from what it sees: the steps that wait for a host, so that they are disturbed while it works.
_SENDING: set[tuple[str, str]] = set()


def sending(kind: str, step: str) -> bool:
    """Tell whether a step waits for a host, as far as that was noted."""
    return (kind, step) in _SENDING


def note_sending(points: list[Point]) -> None:
    """Learn from points that were passed which steps wait for a host; one of which only the undo does is none."""
    _SENDING.update(
        (point.kind, point.step) for point in points if point.moment == Moment.AFTER_MESSAGE.value and not point.undoing
    )


def _steps(item: Any) -> list[tuple[str, str, bool]]:
    if isinstance(item, Bundle):
        row = item.claims[0].workflow
        steps = [step.name for step in REGISTRY[row.kind].steps]
        return [(row.kind, steps[steps.index(row.step) - 1], False)]
    if isinstance(item, tuple) and item and isinstance(item[0], StepOutcome):
        return [(turn.run.row.kind, turn.run.row.step, turn.run.row.undoing) for turn in item]
    return [("", "", False)]


def _turns_back(item: Any) -> bool:
    """Tell whether these turns say that a step has failed, which must succeed for it to be undone."""
    return isinstance(item, tuple) and any(turn.phase not in {Phase.STEP_DONE, Phase.DONE} for turn in item)


def is_at_work(message: ConductorMessage) -> bool:
    """Tell whether a hypervisor is about to begin, rather than that an order waits: that is said while one is sent."""
    return isinstance(message, TaskReached) and message.task in _BEGINS
