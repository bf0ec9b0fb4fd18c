# SPDX-License-Identifier: Apache-2.0
"""What an agent knows of the steps it was given, so that none is carried out twice and each can be asked for."""

import threading

from cachetools import LRUCache

from kilonova.messaging.messages import StepId, StepReply, StepState, StepStatus

#: Of so many steps an agent remembers the replies: more than a host carries out until somebody asks, and little
#: enough where one process has the agents of thousands of simulated hosts. One that is forgotten is carried out again.
_REMEMBERED = 1_000


class SupersededError(Exception):
    """A later attempt of the same workflow has been heard of, so this one comes late, from whoever ran it before."""


class StepMemory:
    """The steps that wait or run, the replies of the last ones that are done, and the newest attempt of each workflow.

    It ends with the agent: a new agent has heard of no step, and the drivers take a repetition of one as what it is.
    """

    def __init__(self, remembered: int = _REMEMBERED) -> None:
        self._lock = threading.Lock()
        self._running: set[StepId] = set()
        self._replies: LRUCache[StepId, StepReply] = LRUCache(remembered)
        self._newest_attempts: LRUCache[str, int] = LRUCache(remembered)

    def begin(self, step: StepId) -> StepReply | StepState:
        """Note that a step was given. Returns ``UNKNOWN`` if it was not before, ``RUNNING``, or the reply it had.

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
        """Tell whether a later attempt of its workflow was heard of since a step was given."""
        with self._lock:
            return step.attempt < self._newest_attempts.get(step.workflow, 0)

    def end(self, step: StepId, reply: StepReply | None) -> None:
        """Note what came of a step; without a reply it has never been given."""
        with self._lock:
            self._running.discard(step)
            if reply is not None and step.workflow:
                self._replies[step] = reply

    def forget_instance(self, instance_uuid: str) -> None:
        """Drop the replies that speak of a guest; by now it is not what they say."""
        with self._lock:
            for step in [step for step, reply in self._replies.items() if reply.instance_uuid == instance_uuid]:
                del self._replies[step]

    def status(self, host: str, instance_uuid: str, step: StepId) -> StepStatus:
        """Return how far a step is."""
        with self._lock:
            reply = self._replies.get(step)
            state = StepState.RUNNING if step in self._running else StepState.UNKNOWN
        return StepStatus(step, host, instance_uuid, state if reply is None else StepState.DONE, reply)
