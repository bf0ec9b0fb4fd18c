# SPDX-License-Identifier: Apache-2.0
"""The bus end of an agent process: it reads queue ``to.<agent>`` and writes to exchange ``from.<agent>``.

The agent process declares no queues or exchanges: control processes, or the operator, declare them.

A message is acknowledged once the agent of its host has accepted it. A message for another session of this process is
dropped, and its step is reported as UNKNOWN, so that the conductor sends the order again.
"""

import contextlib
import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping

import msgspec

from kilonova.errors import Unavailable
from kilonova.logs.rate_limited_log import RateLimitedLog
from kilonova.messaging.bus import Accept
from kilonova.messaging.codec import Envelope, decode, encode
from kilonova.messaging.local import LocalBus
from kilonova.messaging.messages import (
    AbortLiveMigration,
    AgentMessage,
    Answer,
    CachedImages,
    ConductorMessage,
    ConsoleAddress,
    ConsoleOutput,
    Diagnostics,
    ForceCompleteLiveMigration,
    GuestQuestion,
    GuestsFound,
    PowerStates,
    PowerStatesAnswer,
    Question,
    QuestionRefused,
    StepState,
    StepStatus,
)
from kilonova.messaging.rabbit.link import Link
from kilonova.messaging.rabbit.outgoing import Delivery, OutgoingMessage, always
from kilonova.messaging.rabbit.topology import from_agent, to_agent
from kilonova.messaging.rabbit.transport_url import Transport

LOG = logging.getLogger(__name__)
#: Maximum number of messages kept for hosts whose agents have not started yet.
_MOST_EARLY = 1000
#: Pause before the first retry of a question, in seconds. Each later pause is twice as long as the one before, up to
#: ``_LONGEST_PAUSE_S``.
_ASKED_AGAIN_AFTER_S = 2.0
_LONGEST_PAUSE_S = 30.0
#: Maximum number of workflows for which an agent process remembers the control process that awaits the replies.
_MOST_AWAITED = 20_000


class _Copy:
    """The copies of one question, at most one of which is in the outbox at a time.

    ``is_asked``: returns whether the question still waits for its answer.
    """

    def __init__(self, is_asked: Callable[[], bool]) -> None:
        self._is_asked = is_asked
        self._waits_here = False

    def take_turn(self) -> bool:
        """Return whether the caller shall queue a copy now: True unless an earlier copy is still in the outbox."""
        waits, self._waits_here = self._waits_here, True
        return not waits

    def is_wanted(self) -> bool:
        """Return whether the outbox should send the copy, not drop it. The copy leaves the outbox in both cases."""
        self._waits_here = False
        return self._is_asked()


class RabbitAgentBus:
    """The bus of an agent process.

    ``agent``: name of this process at the broker, equal to its user name there. ``new_id``: returns unique ids of
    questions. ``response_timeout_s``: default timeout of a question.
    """

    def __init__(
        self, agent: str, transport: Transport, new_id: Callable[[], str], response_timeout_s: float = 60.0
    ) -> None:
        self._agent = agent
        self._new_id = new_id
        self._response_timeout_s = response_timeout_s
        self._session = ""
        self._is_closing = False
        self._local = LocalBus()
        self._link = Link(transport, f"agent {agent}", self._connected)
        #: Id of an open question → queue of the thread that waits for the answer. None in the queue: the bus is closed.
        self._questions: dict[str, queue.SimpleQueue[Answer | None]] = {}
        #: Workflow → the control process that sent the workflow's latest message; least recent first. Written only by
        #: the link's thread.
        self._awaiting: dict[str, str] = {}
        self._early_lock = threading.Lock()
        self._early: list[tuple[str, AgentMessage]] = []
        self._complaints = RateLimitedLog(LOG)

    def start(self) -> None:
        self._link.start()

    @property
    def is_connected(self) -> bool:
        """Whether this process is connected to the broker."""
        return self._link.is_connected

    @property
    def waiting(self) -> Mapping[str, int]:
        return {**self._local.waiting, "to the broker": self._link.waiting}

    def begin_session(self, session: str) -> None:
        """Accept only messages for this session from now on."""
        with self._early_lock:
            self._session = session
            self._early.clear()

    def serve_agent(self, host: str, accept: Accept) -> None:
        with self._early_lock:
            self._local.serve_agent(host, accept)
            came = [message for each, message in self._early if each == host]
            self._early = [(each, message) for each, message in self._early if each != host]
            for message in came:
                self._local.cast(host, message)

    def tell(self, message: ConductorMessage, *, urgent: bool = False) -> None:
        self._send(Envelope(message, session=self._session, reply_to=self._awaits(message), urgent=urgent))

    def _awaits(self, message: ConductorMessage) -> str:
        match message:
            case GuestsFound() | PowerStates() | PowerStatesAnswer():
                return ""
            case CachedImages() | ConsoleOutput() | ConsoleAddress() | Diagnostics() | QuestionRefused():
                return message.asker
            case _:
                return self._awaiting.get(message.step.workflow, "")

    def ask(self, question: Question, within_s: float | None = None) -> Answer:
        """Send a question to the control processes and wait for the answer. Raises: Unavailable after the timeout.

        The control process that received the question may hang or have no database connection, so copies are sent with
        growing pauses: the broker distributes the copies round-robin to all control processes.
        """
        timeout_s = self._response_timeout_s if within_s is None else within_s
        number = self._new_id()
        answers: queue.SimpleQueue[Answer | None] = queue.SimpleQueue()
        self._questions[number] = answers
        copy = _Copy(lambda: number in self._questions)
        envelope = Envelope(question, session=self._session, question=number, urgent=True)
        until = time.monotonic() + timeout_s
        pause_s = _ASKED_AGAIN_AFTER_S
        try:
            while (left_s := until - time.monotonic()) > 0:
                if copy.take_turn():
                    self._send(envelope, copy.is_wanted)
                with contextlib.suppress(queue.Empty):
                    answer = answers.get(timeout=min(pause_s, left_s))
                    if answer is None:
                        raise Unavailable("This process is shutting down.")
                    return answer
                if pause_s == _LONGEST_PAUSE_S:
                    what = f"No control process has answered a {type(question).__name__}; copies of it are sent"
                    self._complaints.complain("unanswered", f"{what} for up to {timeout_s:g} s")
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        finally:
            del self._questions[number]
        raise Unavailable(f"No control process has answered within {timeout_s:g} s.")

    def close(self) -> None:
        """Accept no more messages, wait until the running work is done, and send the replies of this work."""
        for answers in list(self._questions.values()):
            answers.put(None)
        self._is_closing = True
        self._local.close()
        self._link.close()

    def _send(self, envelope: Envelope, is_wanted: Callable[[], bool] = always) -> None:
        self._link.send(
            OutgoingMessage(from_agent(self._agent), "", encode(envelope), is_wanted), urgent=envelope.urgent
        )

    # --- on the thread of the link ---

    def _connected(self) -> None:
        self._link.consume(self._link.epoch, to_agent(self._agent), self._take)

    def _take(self, delivery: Delivery) -> None:
        if self._is_closing:
            return  # unacknowledged: the broker redelivers the message to the next process of this agent
        try:
            envelope = decode(delivery.body)
        except msgspec.DecodeError as error:
            self._complaints.complain("not understood", f"A message from a control process is dropped: {error}")
        else:
            self._accept(envelope)
        self._link.acknowledge(delivery)

    def _accept(self, envelope: Envelope) -> None:
        message = envelope.message
        if isinstance(message, Answer):
            answers = self._questions.get(envelope.question)
            if answers is not None:  # otherwise the question has timed out or was answered before
                answers.put(message)
        elif isinstance(message, AgentMessage):
            if not isinstance(message, GuestQuestion):
                self._note_sender(message.step.workflow, envelope.reply_to)
            with self._early_lock:
                if envelope.session != self._session:
                    self._refuse(envelope.host, message)
                else:
                    self._deliver(envelope.host, message)
        else:
            self._complaints.complain("not for agents", f"A {type(message).__name__} is dropped: it is not for agents")

    def _deliver(self, host: str, message: AgentMessage) -> None:
        try:
            self._local.cast(host, message)
        except Unavailable:
            if len(self._early) < _MOST_EARLY:
                self._early.append((host, message))
            else:
                self._complaints.complain(f"early {host}", f"No agent serves host {host}; a message for it is dropped")

    def _refuse(self, host: str, message: AgentMessage) -> None:
        """Drop a message for another session, and answer the message so that the control process sends it again."""
        LOG.info("Host %s: dropped a %s for another session", host, type(message).__name__)
        if isinstance(message, GuestQuestion):
            said = message.question, host, message.instance_uuid, message.asker
            self.tell(QuestionRefused(*said, "The compute service of the instance is registering again."), urgent=True)
        elif message.step.workflow and not isinstance(message, AbortLiveMigration | ForceCompleteLiveMigration):
            self.tell(StepStatus(message.step, host, message.instance_uuid, StepState.UNKNOWN), urgent=True)

    def _note_sender(self, workflow: str, sender: str) -> None:
        if not workflow:
            return
        self._awaiting.pop(workflow, None)
        self._awaiting[workflow] = sender
        if len(self._awaiting) > _MOST_AWAITED:
            del self._awaiting[next(iter(self._awaiting))]
