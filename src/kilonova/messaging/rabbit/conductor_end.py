# SPDX-License-Identifier: Apache-2.0
"""The bus end of a control process, for agents inside the process and for agent processes that use the broker.

A message for a host with a route is sent over the broker. A message for any other host is delivered inside the process,
which may run agents of simulated hosts. Each control process reads the queues of all agent processes, and forwards a
reply to the control process that awaits it. Messages are dropped if the broker did not authenticate their sender, or if
they name a host for which the sender is not enrolled.
"""

import contextlib
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial

import msgspec

from kilonova.errors import Forbidden, KilonovaError
from kilonova.logs.rate_limited_log import RateLimitedLog
from kilonova.messaging.bus import Accept, Answerer, DeclinedError, Sender
from kilonova.messaging.codec import Envelope, decode, encode, require_known
from kilonova.messaging.local import LocalBus
from kilonova.messaging.messages import (
    AgentMessage,
    Answer,
    ConductorMessage,
    GuestAnswer,
    Heartbeat,
    HostsStarted,
    MigrationProgress,
    Question,
    StepReply,
    StepStatus,
    TaskReached,
)
from kilonova.messaging.rabbit.fair_turns import FairTurns
from kilonova.messaging.rabbit.link import Link
from kilonova.messaging.rabbit.outgoing import Delivery, OutgoingMessage, always
from kilonova.messaging.rabbit.queue_keeper import QueueKeeper
from kilonova.messaging.rabbit.sender_checks import check_hosts, check_writer
from kilonova.messaging.rabbit.topology import TO_AGENTS, TO_QUEUES, to_control
from kilonova.messaging.rabbit.transport_url import Transport
from kilonova.messaging.routes import Routes

LOG = logging.getLogger(__name__)
#: Maximum size of a message in bytes. A report of 200 hosts with 5,000 guests each is half as large.
_MOST_BYTES = 64 * 2**20
#: The log's rate limit uses this many leading characters of the reason for a drop as its key. They contain no text of
#: the message, so that a sender cannot create an unlimited number of keys.
_OURS = 20
_REPLIES = StepReply | StepStatus | TaskReached | MigrationProgress | GuestAnswer


class RabbitConductorBus:
    """The bus of a control process.

    ``process``: uuid of this control process. ``routes``: directory of the agents in other processes. ``local``: bus to
    the agents in this process. ``may_send``: returns whether this process has a valid lease; if not, queued messages to
    agents are dropped.
    """

    def __init__(
        self,
        transport: Transport,
        process: str,
        routes: Routes,
        local: LocalBus,
        may_send: Callable[[], bool] = always,
    ) -> None:
        self._process = process
        self._routes = routes
        self._local = local
        self._may_send = may_send
        self._handler: Callable[[ConductorMessage], None] | None = None
        self._answerer: Answerer | None = None
        name = f"control {process}"
        # A reply that another control process forwards is lost unless the queue of this process exists.
        self._link = Link(transport, name, self._connected, lambda: self._keeper.has_own_queue)
        self._keeper = QueueKeeper(transport, name, self._link, routes, process, self._hear, self._take_passed_on)
        #: Received messages that wait for a thread; each queue is fair to all senders.
        self._questions, self._heartbeats = FairTurns(), FairTurns()
        self._urgent, self._ordinary = FairTurns(), FairTurns()
        #: (agent, id of the question) of each question that this process is answering.
        self._being_answered: set[tuple[str, str]] = set()
        self._complaints = RateLimitedLog(LOG)

    def start(self) -> None:
        """Start receiving messages of agents. Call :meth:`serve_conductor` first."""
        self._link.start()
        self._keeper.start()

    # --- methods of AgentBus: only for the agents in this process ---

    def serve_agent(self, host: str, accept: Accept) -> None:
        self._local.serve_agent(host, accept)

    def begin_session(self, session: str) -> None:
        self._local.begin_session(session)

    def tell(self, message: ConductorMessage, *, urgent: bool = False) -> None:
        self._local.tell(message, urgent=urgent)

    def ask(self, question: Question, within_s: float | None = None) -> Answer:
        return self._local.ask(question, within_s)

    # --- methods of ConductorBus: for the agents in this process and in other processes ---

    def serve_conductor(self, handler: Callable[[ConductorMessage], None], answer: Answerer) -> None:
        self._handler, self._answerer = handler, answer
        self._local.serve_conductor(handler, answer)

    def cast(self, host: str, message: AgentMessage) -> None:
        route = self._routes.of(host)
        if route is None:
            self._local.cast(host, message)
            return
        require_known(message, route.version, host)
        self._send(route.agent, Envelope(message, host=host, session=route.session, reply_to=self._process))

    @property
    def hears_agents(self) -> bool:
        return self.is_connected

    def hears(self, host: str) -> bool:
        return (self.is_connected and self._routes.is_alive(host)) or self._local.hears(host)

    def agents_changed(self) -> None:
        """Reload the list of enrolled agents now, instead of at the next periodic check. Does not block."""
        self._keeper.look()

    def run_in_conductor(self, work: Callable[[], None]) -> None:
        self._local.run_in_conductor(work)

    def run_urgently(self, work: Callable[[], None]) -> None:
        self._local.run_urgently(work)

    def run_blocking(self, work: Callable[[], None]) -> None:
        self._local.run_blocking(work)

    @property
    def is_connected(self) -> bool:
        """Whether this process is connected to the broker and reads the queues of all enrolled agents."""
        return self._link.is_connected and self._keeper.hears_all

    @property
    def waiting(self) -> Mapping[str, int]:
        return {**self._local.waiting, "to the broker": self._link.waiting}

    def close(self) -> None:
        self._keeper.close()
        self._local.close()
        self._link.close()

    def _send(self, agent: str, envelope: Envelope) -> None:
        self._link.send(OutgoingMessage(TO_AGENTS, agent, encode(envelope), self._may_send))

    # --- on the thread of the link ---

    def _connected(self) -> None:
        self._keeper.look()

    def _hear(self, agent: str, delivery: Delivery) -> None:
        """Check a delivery from the queue of an agent; then handle its message, forward it or drop it."""
        try:
            check_writer(self._routes, agent, delivery)
            envelope = _read(delivery)
            check_hosts(self._routes, agent, envelope.message)
        except (Forbidden, msgspec.DecodeError) as error:
            self._drop(f"agent {agent}", delivery, error)
            return
        message = envelope.message
        if isinstance(message, Question):
            if isinstance(message, HostsStarted):
                self._note_sign_of_life(agent, envelope.version, message.session)
            asked = agent, envelope.question
            if asked in self._being_answered:  # a copy: agents repeat questions, as a receiver may hang
                self._link.acknowledge(delivery)
                return
            self._being_answered.add(asked)
            answer = partial(self._answer, agent, envelope, message, delivery)
            if isinstance(message, Heartbeat):
                # A heartbeat must not wait behind blocking work. Otherwise the sessions of other agents would expire
                # during many simultaneous registrations, and the agents would then have to register all their hosts as
                # well.
                self._heartbeats.add(agent, answer)
                self._local.run_urgently(self._heartbeats.run_next)
            else:
                self._questions.add(agent, answer)
                self._local.run_blocking(self._questions.run_next)
        elif isinstance(message, _REPLIES) and envelope.reply_to not in ("", self._process):
            self._link.send(
                OutgoingMessage(TO_QUEUES, to_control(envelope.reply_to), delivery.body), urgent=envelope.urgent
            )
            self._link.acknowledge(delivery)
        elif isinstance(message, ConductorMessage):
            self._handle(f"agent {agent}", message, delivery, urgent=envelope.urgent)

    def _note_sign_of_life(self, agent: str, version: int, session: str) -> None:
        """Handle each copy of a HostsStarted also as a heartbeat of its session.

        If many agent processes start together, the registration of a host may take longer than the lease of its agent
        process. Without these heartbeats the sessions would expire, and all processes would register again and again.
        """

        def note() -> None:
            if self._answerer is not None:
                with contextlib.suppress(KilonovaError):  # the handler of HostsStarted reports the same error
                    self._answerer(Heartbeat(session=session), Sender(agent, version))

        self._heartbeats.add(agent, note)
        self._local.run_urgently(self._heartbeats.run_next)

    def _take_passed_on(self, delivery: Delivery) -> None:
        """Handle a reply that another control process has checked and forwarded. Agents cannot write to this queue."""
        try:
            envelope = _read(delivery)
        except msgspec.DecodeError as error:
            self._drop("another control process", delivery, error)
            return
        if isinstance(envelope.message, _REPLIES):
            self._handle("another process", envelope.message, delivery, urgent=envelope.urgent)
        else:
            self._link.acknowledge(delivery)

    def _handle(self, whose: str, message: ConductorMessage, delivery: Delivery, *, urgent: bool) -> None:
        turns = self._urgent if urgent else self._ordinary
        turns.add(whose, partial(self._handle_now, whose, message, delivery))
        run = self._local.run_urgently if urgent else self._local.run_in_conductor
        run(turns.run_next)

    def _drop(self, whose: str, delivery: Delivery, why: Exception) -> None:
        kind = f"{whose}: {str(why)[:_OURS]}"
        self._complaints.complain(kind, f"A message of {whose} is dropped: {why}")
        self._link.acknowledge(delivery)

    # --- on threads of the pools: messages are acknowledged after their handling, so the prefetch limits memory use ---

    def _handle_now(self, whose: str, message: ConductorMessage, delivery: Delivery) -> None:
        try:
            if self._handler is not None:
                self._handler(message)
        except Exception as error:  # noqa: BLE001 - rate-limited, as a sender can cause it at will
            self._complain_of(f"A {type(message).__name__} of {whose} is not handled", error)
        finally:
            self._link.acknowledge(delivery)

    def _answer(self, agent: str, envelope: Envelope, message: Question, delivery: Delivery) -> None:
        answer: Future[Answer] = Future()
        try:
            if self._answerer is not None:
                given = self._answerer(message, Sender(agent, envelope.version))
                if isinstance(given, Future):
                    answer = given
                else:
                    answer.set_result(given)
        except Exception as error:  # noqa: BLE001 - logged by _answered
            answer.set_exception(error)
        answer.add_done_callback(partial(self._answered, agent, envelope, message, delivery))

    def _answered(
        self, agent: str, envelope: Envelope, message: Question, delivery: Delivery, answer: Future[Answer]
    ) -> None:
        def reply(given: Answer) -> None:
            self._send(agent, Envelope(given, session=envelope.session, question=envelope.question))

        try:
            reply(answer.result())
        except DeclinedError as error:
            self._complain_of(f"A {type(message).__name__} of agent {agent} is declined", error)
            reply(error.answer)
        except Exception as error:  # noqa: BLE001 - rate-limited, as a sender can cause it at will
            self._complain_of(f"A {type(message).__name__} of agent {agent} is not answered", error)
        finally:
            self._being_answered.discard((agent, envelope.question))
            self._link.acknowledge(delivery)

    def _complain_of(self, what: str, error: Exception) -> None:
        """Log an error, rate-limited. The log line has the traceback, unless the error is a KilonovaError."""
        if isinstance(error, KilonovaError):
            self._complaints.complain(what, f"{what}: {error.message}")
        else:
            self._complaints.complain(what, f"{what}: {type(error).__name__}: {error}", error)


def _read(delivery: Delivery) -> Envelope:
    """Parse a delivery. Raises: msgspec.DecodeError, also if the message is too large or nested too deeply."""
    if len(delivery.body) > _MOST_BYTES:
        raise msgspec.DecodeError(f"The message has {len(delivery.body)} bytes, more than {_MOST_BYTES}")
    try:
        return decode(delivery.body)
    except RecursionError as error:
        raise msgspec.DecodeError("The message is nested too deeply") from error
