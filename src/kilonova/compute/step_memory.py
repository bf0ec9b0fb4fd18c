# SPDX-License-Identifier: Apache-2.0
"""Deduplication of steps: an agent remembers its recent steps, so that each runs once and can be queried."""

import threading

from cachetools import LRUCache

from kilonova.messaging.messages import StepId, StepReply, StepState, StepStatus

#: Number of steps whose replies an agent remembers: large enough that control processes can query a step in time, small
#: enough for a process with thousands of simulated hosts. A repeated step whose reply was forgotten runs again.
_REMEMBERED = 1_000


class SupersededError(Exception):
    """A message is stale: a later attempt of its workflow has arrived, so its sender no longer owns the workflow."""


class StepMemory:
    """Queued and running steps, the replies of recently finished ones, and the newest attempt of each workflow.

    All of it is lost when the agent restarts. A repeated step then runs again, which is safe, since the driver's calls
    are idempotent.
    """

    def __init__(self, remembered: int = _REMEMBERED) -> None:
        self._lock = threading.Lock()
        self._running: set[StepId] = set()
        self._replies: LRUCache[StepId, StepReply] = LRUCache(remembered)
        self._newest_attempts: LRUCache[str, int] = LRUCache(remembered)

    def begin(self, step: StepId) -> StepReply | StepState:
        """Record a step. Return ``UNKNOWN`` if it is new, ``RUNNING`` if it is queued or running, or else its reply.

        Raises: SupersededError.
        """
        with self._lock:
            if not step.workflow:
                return StepState.UNKNOWN
            if step in self._running:
                return StepState.RUNNING
            reply = self._replies.get(step)
            if reply is not None:
                return reply
            newest = self._newest_attempts.get(step.workflow, 0)
            if step.attempt < newest:
                raise SupersededError
            self._newest_attempts[step.workflow] = step.attempt
            self._running.add(step)
            return StepState.UNKNOWN

    def is_superseded(self, step: StepId) -> bool:
        """Tell whether a later attempt of the step's workflow has arrived."""
        with self._lock:
            return step.attempt < self._newest_attempts.get(step.workflow, 0)

    def end(self, step: StepId, reply: StepReply | None) -> None:
        """Record the reply of a step; without a reply, forget the step."""
        with self._lock:
            self._running.discard(step)
            if reply is not None and step.workflow:
                self._replies[step] = reply

    def forget_instance(self, instance_uuid: str) -> None:
        """Forget the replies about a guest, because the state of the guest has changed since."""
        with self._lock:
            for step in [step for step, reply in self._replies.items() if reply.instance_uuid == instance_uuid]:
                del self._replies[step]

    def status(self, host: str, instance_uuid: str, step: StepId) -> StepStatus:
        """Return the progress of a step, with its reply if it is finished."""
        with self._lock:
            reply = self._replies.get(step)
            state = StepState.RUNNING if step in self._running else StepState.UNKNOWN
        return StepStatus(step, host, instance_uuid, state if reply is None else StepState.DONE, reply)
