# SPDX-License-Identifier: Apache-2.0
"""Messages that wait for their reply, without a thread: sent once, asked about when they take long."""

import logging
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any

from kilonova.conductor.workflow_engine.workflow import AGENT_TOO_OLD, UNREACHABLE, Run, SendToAgent
from kilonova.errors import AgentTooOld, Unavailable
from kilonova.logs.rate_limited_log import RateLimitedLog
from kilonova.messaging.bus import ConductorBus
from kilonova.messaging.messages import AskStep, MigrationProgress, StepReply, StepState, StepStatus, TaskReached
from kilonova.model.instance import TaskState

LOG = logging.getLogger(__name__)
#: What an agent says of a step.
AboutStep = StepReply | StepStatus | TaskReached | MigrationProgress
#: Seconds after which an agent that has not replied is asked how far it is.
RESPONSE_TIMEOUT_S = 60.0
#: How soon an agent is asked that has not got a message because its process might not act just then.
_ASKED_AGAIN_AFTER_S = 1.0
#: Beyond that the pauses do not grow.
_MOST_DOUBLINGS = 10
#: How often an agent may leave a question about its step unanswered.
MAX_QUESTIONS = 5


@dataclass(slots=True)
class _PendingReply:
    """``due``: when the agent is asked how far it is; ``questions``: that it has not answered.

    ``unknown``: how often in a row it did not know the step; ``sent_again_from``: when it is sent once more then.
    """

    run: Run[Any]
    effect: SendToAgent
    due: float
    questions: int = 0
    unknown: int = 0
    sent_again_from: float = float("-inf")

    def known(self) -> None:
        """Begin to count anew how often the agent does not know the step."""
        self.unknown, self.sent_again_from = 0, float("-inf")

    def reaches(self, task: TaskState) -> None:
        """Note what is sent from now on, should the agent forget the step."""
        self.effect = replace(self.effect, message=self.effect.once.get(task, self.effect.message))


class PendingReplies:
    """The workflows of a process that wait for a reply. ``may_act``: whether this process may act for its hosts.

    ``response_timeout_s``: how long a reply may take before its agent is asked.
    """

    def __init__(
        self, bus: ConductorBus, may_act: Callable[[], bool], clock: Callable[[], float], response_timeout_s: float
    ) -> None:
        self._bus = bus
        self._may_act = may_act
        self._clock = clock
        self._response_timeout_s = response_timeout_s
        self._lock = threading.Lock()
        self._complaints = RateLimitedLog(LOG)
        #: The first reply takes its entry, so that copies find nothing.
        self._pending: dict[str, _PendingReply] = {}

    def send(
        self, run: Run[Any], effect: SendToAgent, is_present: Callable[[], bool], *, ask: bool
    ) -> StepReply | None:
        """Send a message and park; return the reply that a workflow gives itself where the host takes none.

        Nothing is sent when the workflow is not where we think it is (``is_present``): under the same lock whatever
        interrupts it sends its own, so messages keep their order. ``ask``: it may have been sent before, so the agent
        is asked first. Raises: Unavailable when this process may not act.
        """
        with self._lock:
            if not is_present():
                return None
            if not self._may_act():
                raise Unavailable("Other processes may have taken over the work of this one.")
            pending = _PendingReply(run, effect, self._due(effect))
            self._pending[run.row.uuid] = pending
            message = AskStep(run.step_id, run.instance_uuid) if ask else effect.message
            try:
                self._bus.cast(effect.host, message)
            except Unavailable as error:
                del self._pending[run.row.uuid]
                return _refused(pending, error)
        return None

    def is_pending(self, run: Run[Any]) -> bool:
        """Tell whether a workflow waits for the reply to the present start of its step."""
        with self._lock:
            pending = self._pending.get(run.row.uuid)
            return pending is not None and pending.run.row.attempt == run.row.attempt

    def awaits(self, message: AboutStep) -> bool:
        """Tell whether what an agent says is about a step that a workflow waits for, its host and its instance."""
        with self._lock:
            return self._find(message) is not None

    def take(self, reply: StepReply) -> bool:
        """Take a reply. Tells whether anybody waits for it; nobody does for a copy."""
        with self._lock:
            if self._find(reply) is None:
                return False
            del self._pending[reply.step.workflow]
            return True

    def take_progress(self, message: TaskReached) -> Run[Any] | None:
        """Take that an agent has reached another task of a step; return the workflow that waits for it, if one does."""
        with self._lock:
            pending = self._find(message)
            if pending is None:
                return None
            pending.reaches(message.task)
            return pending.run

    def is_forgotten(self, status: StepStatus) -> bool:
        """Tell whether an agent does not know a step, and what it is sent instead depends on how far it was."""
        with self._lock:
            pending = self._find(status) if status.state is StepState.UNKNOWN else None
            return pending is not None and bool(pending.effect.once)

    def take_status(self, status: StepStatus, task: TaskState | None = None) -> StepReply | None:
        """Take an agent's answer to the question how far it is; return what the workflow may take for its reply.

        A message that has never arrived is sent: at once the first time, then after longer and longer pauses. Else an
        agent whose next session is not known here yet, and that drops what is meant for the last one, would be sent
        the same message as fast as it can drop it. ``task``: of the
        server, where it matters which message that is.
        """
        with self._lock:
            pending = self._find(status)
            if pending is None:
                return None
            if task is not None:
                pending.reaches(task)
            if status.state is StepState.DONE and status.reply is not None:
                return status.reply if self._find(status.reply) is pending else None
            pending.due = self._due(pending.effect)
            pending.questions = 0
            if status.state is StepState.RUNNING:
                pending.known()
                return None
            now = self._clock()
            if not self._may_act():
                pending.due = now + _ASKED_AGAIN_AFTER_S
                return None
            if now < pending.sent_again_from:
                pending.due = min(pending.due, pending.sent_again_from)
                return None
            pending.sent_again_from = now + min(_ASKED_AGAIN_AFTER_S * 2**pending.unknown, self._response_timeout_s)
            pending.unknown = min(pending.unknown + 1, _MOST_DOUBLINGS)
            try:
                self._bus.cast(pending.effect.host, pending.effect.message)
            except Unavailable as error:
                return _refused(pending, error)
        return None

    def hurry(self, hosts: Collection[str]) -> None:
        """Have the agents of some hosts asked at once rather than when their replies are overdue."""
        with self._lock:
            for pending in self._pending.values():
                if pending.effect.host in hosts:
                    pending.due = self._clock()
                    pending.known()

    def ask_overdue(self) -> tuple[StepReply, ...]:
        """Ask the agents whose replies are overdue; return the replies for those that cannot be reached."""
        lost: list[StepReply] = []
        now = self._clock()
        with self._lock:
            for pending in [each for each in self._pending.values() if each.due <= now]:
                # One that cannot be heard leaves nothing unanswered. Whether it is gone is judged by its signs of life.
                pending.questions += self._bus.hears(pending.effect.host)
                pending.due = self._due(pending.effect)
                if pending.questions > MAX_QUESTIONS:
                    lost.append(_refused(pending, Unavailable("The agent answers no questions.")))
                    continue
                try:
                    self._bus.cast(pending.effect.host, AskStep(pending.run.step_id, pending.run.instance_uuid))
                except Unavailable as error:
                    lost.append(_refused(pending, error))
        return tuple(lost)

    def _find(self, message: AboutStep) -> _PendingReply | None:
        """Return what waits for a message. Whoever sends it knows no more than what its own host was sent."""
        pending = self._pending.get(message.step.workflow)
        if pending is None or message.step != pending.run.step_id:
            return None
        if (message.host, message.instance_uuid) != (pending.effect.host, pending.run.instance_uuid):
            self._complaints.complain(
                message.host,
                f"Host {message.host} has sent a {type(message).__name__} of a step that is for another host or server",
            )
            return None
        return pending

    def _due(self, effect: SendToAgent) -> float:
        return self._clock() + (effect.asked_after_s or self._response_timeout_s)

    def leave(self, uuid: str, attempt: int | None = None) -> None:
        """Wait for nothing any more; with ``attempt``, for nothing but that start of a step."""
        with self._lock:
            pending = self._pending.get(uuid)
            if pending is not None and pending.run.row.attempt != attempt:
                del self._pending[uuid]

    def clear(self) -> None:
        with self._lock:
            self._pending.clear()

    def __len__(self) -> int:
        with self._lock:
            return len(self._pending)


def _refused(pending: _PendingReply, error: Unavailable) -> StepReply:
    """Return the reply that a workflow gives itself when its host has no agent, or one that is too old."""
    said = AGENT_TOO_OLD if isinstance(error, AgentTooOld) else UNREACHABLE
    return StepReply(pending.run.step_id, pending.effect.host, pending.run.instance_uuid, said, error.message)
