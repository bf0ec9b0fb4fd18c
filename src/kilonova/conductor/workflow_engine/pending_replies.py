# SPDX-License-Identifier: Apache-2.0
"""Pending replies: workflows that have sent a message to an agent and wait for the reply without blocking a thread.

If a reply is overdue, the agent is asked for the state of the step.
"""

import logging
import threading
from collections.abc import Callable, Collection
from dataclasses import replace

from kilonova.conductor.workflow_engine.effects import SendToAgent
from kilonova.conductor.workflow_engine.run import AGENT_TOO_OLD, UNREACHABLE, HasHost, Run
from kilonova.errors import AgentTooOld, Unavailable
from kilonova.logs.rate_limited_log import RateLimitedLog
from kilonova.messaging.bus import ConductorBus
from kilonova.messaging.messages import AskStep, MigrationProgress, StepReply, StepState, StepStatus, TaskReached
from kilonova.model.instance import TaskState
from kilonova.records import dataclass

LOG = logging.getLogger(__name__)
#: Messages of an agent about a step.
AboutStep = StepReply | StepStatus | TaskReached | MigrationProgress
#: Default time in seconds to wait for a reply. After it, the agent is asked for the state of the step.
RESPONSE_TIMEOUT_S = 60.0
#: Initial back-off in seconds before an order that the agent has lost is sent again. Also the pause in seconds before
#: the agent is asked again, if this process does not hold its lease when the agent answers.
_ASKED_AGAIN_AFTER_S = 1.0
#: Upper limit of the exponent of the exponential back-off.
_MOST_DOUBLINGS = 10
#: Number of unanswered questions about a step after which the agent that was asked counts as unreachable.
MAX_QUESTIONS = 5


@dataclass(slots=True)
class _PendingReply:
    """A workflow that waits for the reply to a message.

    ``due``: clock time at which the agent is asked for the state of the step. ``questions``: number of unanswered
    questions.
    ``unknown``: how many times in a row the agent did not know the step. ``sent_again_from``: earliest clock time of
    the next resend.
    """

    run: Run[HasHost]
    effect: SendToAgent
    due: float
    questions: int = 0
    unknown: int = 0
    sent_again_from: float = float("-inf")

    def known(self) -> None:
        """Reset the count of answers in which the agent did not know the step."""
        self.unknown, self.sent_again_from = 0, float("-inf")

    def reaches(self, task: TaskState) -> None:
        """Note the server's task state ``task``, which determines the message to resend if the agent loses the step."""
        self.effect = replace(self.effect, message=self.effect.once.get(task, self.effect.message))


class PendingReplies:
    """The pending replies of a process. ``may_act``: returns whether this process holds its lease.

    ``response_timeout_s``: seconds without a reply after which an agent is asked for the state of the step.
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
        #: Workflow uuid → pending reply. The first reply removes the entry, so that duplicates are ignored.
        self._pending: dict[str, _PendingReply] = {}

    def send(
        self, run: Run[HasHost], effect: SendToAgent, is_present: Callable[[], bool], *, ask: bool
    ) -> StepReply | None:
        """Send a message to an agent and register its pending reply; return an error reply if it cannot be sent.

        The message cannot be sent if the host is unreachable or the agent of the host is too old.
        Nothing is sent if ``is_present`` returns False because the workflow has changed. The check and the sending hold
        the lock of :meth:`is_pending`, so that an interrupt sends its own message after this one.
        ``ask``: the message may have been sent before, so ask the agent for the state of the step instead.
        Raises: Unavailable if this process does not hold its lease.
        """
        with self._lock:
            if not is_present():
                return None
            if not self._may_act():
                raise Unavailable("This process has lost its lease; other processes may have taken over its work.")
            pending = _PendingReply(run, effect, self._due(effect))
            self._pending[run.row.uuid] = pending
            message = AskStep(run.step_id, run.instance_uuid) if ask else effect.message
            try:
                self._bus.cast(effect.host, message)
            except Unavailable as error:
                del self._pending[run.row.uuid]
                return _refused(pending, error)
        return None

    def is_pending(self, run: Run[HasHost]) -> bool:
        """Return True if a workflow waits for the reply to the present attempt at its step."""
        with self._lock:
            pending = self._pending.get(run.row.uuid)
            return pending is not None and pending.run.row.attempt == run.row.attempt

    def awaits(self, message: AboutStep) -> bool:
        """Return True if an agent's message is about a step that a workflow waits for, on the same host and server."""
        with self._lock:
            return self._find(message) is not None

    def take(self, reply: StepReply) -> bool:
        """Accept a reply; return False if no workflow waits for it, for instance because it is a duplicate."""
        with self._lock:
            if self._find(reply) is None:
                return False
            del self._pending[reply.step.workflow]
            return True

    def take_progress(self, message: TaskReached) -> Run[HasHost] | None:
        """Accept a progress message of an agent; return the workflow that waits for the step, or None."""
        with self._lock:
            pending = self._find(message)
            if pending is None:
                return None
            pending.reaches(message.task)
            return pending.run

    def is_forgotten(self, status: StepStatus) -> bool:
        """Return True if an agent does not know a step and the message to resend depends on the step's progress."""
        with self._lock:
            pending = self._find(status) if status.state is StepState.UNKNOWN else None
            return pending is not None and bool(pending.effect.once)

    def take_status(self, status: StepStatus, task: TaskState | None = None) -> StepReply | None:
        """Handle an agent's answer about the state of a step; return the step's reply if the step is done.

        Return an error reply if the message must be sent again and cannot be sent.
        If the agent does not know the step, the message is sent again: the first time at once, then with exponential
        back-off. Without back-off, an agent that has restarted and drops messages for its previous session would get
        the same message in a tight loop.
        ``task``: the server's task state, if the message to resend depends on it.
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
        """Make the next :meth:`ask_overdue` ask the agents of these hosts, although their replies are not overdue."""
        with self._lock:
            for pending in self._pending.values():
                if pending.effect.host in hosts:
                    pending.due = self._clock()
                    pending.known()

    def ask_overdue(self) -> tuple[StepReply, ...]:
        """Ask agents for the state of steps whose replies are overdue; return error replies for unreachable agents."""
        lost: list[StepReply] = []
        now = self._clock()
        with self._lock:
            for pending in [each for each in self._pending.values() if each.due <= now]:
                # A question counts only if this process can receive the answer. If it cannot, the agent is declared
                # down only when its heartbeats are missing.
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
        """Return the pending reply that a message answers; None if its step, host or server is not the awaited one."""
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
        """Remove the pending reply of a workflow, unless it belongs to ``attempt``."""
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
    """Return the substitute reply for a host whose agent is unreachable or too old."""
    said = AGENT_TOO_OLD if isinstance(error, AgentTooOld) else UNREACHABLE
    return StepReply(pending.run.step_id, pending.effect.host, pending.run.instance_uuid, said, error.message)
