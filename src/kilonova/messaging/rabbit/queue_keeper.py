# SPDX-License-Identifier: Apache-2.0
"""Declaration and consumption of the queues of all enrolled agents, repeated after failures of the broker.

Queues are declared over a separate connection: the broker never answers for a queue that has lost its leader, and the
wait for an answer would block all other traffic of the link's connection.
"""

import logging
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import amqp

from kilonova.logs.rate_limited_log import RateLimitedLog
from kilonova.messaging.rabbit.connection import BROKEN, close, connect, discard
from kilonova.messaging.rabbit.link import Link
from kilonova.messaging.rabbit.outgoing import Delivery
from kilonova.messaging.rabbit.topology import (
    check_agent,
    declare_agent,
    declare_control,
    declare_exchange,
    from_agent,
    to_control,
)
from kilonova.messaging.rabbit.transport_url import Transport
from kilonova.messaging.routes import Routes

LOG = logging.getLogger(__name__)
#: Seconds between two checks for enrolled and revoked agents.
_EVERY_S = 5.0
#: Errors by which the broker refuses a declaration: the user has no permission, the object exists with different
#: arguments, or the object to check does not exist.
_REFUSALS = (amqp.AccessRefused, amqp.PreconditionFailed, amqp.NotFound)


class QueueKeeper:
    """Consumer of the queues of all enrolled agents and of control process ``process``, over ``link``.

    ``hear``: called with each delivery of an agent; ``take``: called with each delivery of other control processes.
    """

    def __init__(
        self,
        transport: Transport,
        name: str,
        link: Link,
        routes: Routes,
        process: str,
        hear: Callable[[str, Delivery], None],
        take: Callable[[Delivery], None],
    ) -> None:
        self._transport = transport
        self._name = name
        self._link = link
        self._routes = routes
        self._process = process
        self._hear = hear
        self._take = take
        self._epoch = 0
        #: The agents whose queues are consumed over the current connection of the link.
        self._read: set[str] = set()
        self._addresses = transport.servers()
        self._look = threading.Event()
        self._is_closing = False
        self._complaints = RateLimitedLog(LOG)
        self._thread = threading.Thread(target=self._run, name=f"{name} queues", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def hears_all(self) -> bool:
        """Whether the queues of all enrolled agents are consumed."""
        return self._epoch == self._link.epoch and self._read >= set(self._routes.enrolled())

    @property
    def has_own_queue(self) -> bool:
        """Whether the queue of this process has been declared. The queue survives short interruptions of the link."""
        return self._epoch > 0

    def look(self) -> None:
        self._look.set()

    def close(self) -> None:
        self._is_closing = True
        self._look.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._is_closing:
            try:
                self._follow()
            except BROKEN as error:
                self._complaints.complain("broken", f"{self._name}: the check of the queues failed: {error}")
            except Exception:
                LOG.exception("%s: the check of the queues failed", self._name)
            self._look.wait(_EVERY_S)
            self._look.clear()

    def _follow(self) -> None:
        """Consume the queues of exactly the agents that are enrolled now."""
        epoch = self._link.epoch
        if not epoch:
            return
        is_new = epoch != self._epoch
        if is_new:
            self._read = set()
        enrolled = set(self._routes.enrolled())
        for agent in self._read - enrolled:
            self._link.cancel(epoch, from_agent(agent))
            self._read.discard(agent)
        added = sorted(enrolled - self._read)
        if not is_new and not added:
            return
        connection = connect(self._transport, next(self._addresses), f"{self._name} queues")
        try:
            if is_new:
                self._begin(connection, epoch)
            for agent in added:
                if self._is_closing:
                    break
                if self._is_there(connection, agent):
                    self._link.consume(epoch, from_agent(agent), partial(self._hear, agent))
                    self._read.add(agent)
        except BaseException:
            discard(connection)
            raise
        close(connection)

    def _begin(self, connection: amqp.Connection, epoch: int) -> None:
        """Declare and consume the queue for replies that other control processes forward."""
        self._refusal(connection, declare_exchange)  # a refusal is ignored: the operator may have created the exchange
        why = self._refusal(connection, partial(declare_control, process=self._process))
        if why is not None:
            raise why
        self._link.consume(epoch, to_control(self._process), self._take)
        self._epoch = epoch
        self._link.write_now()

    def _is_there(self, connection: amqp.Connection, agent: str) -> bool:
        """Declare the queues of an agent; return whether they exist."""
        why = self._refusal(connection, partial(declare_agent, agent=agent))
        if why is None or self._refusal(connection, partial(check_agent, agent=agent)) is None:
            return True
        self._complaints.complain(
            f"missing {agent}",
            f"{self._name}: agent {agent} cannot be heard: its queues do not exist, and this user may not create "
            f"them ({why}). Import the definitions that the agent's enrolment printed.",
        )
        return False

    def _refusal(self, connection: amqp.Connection, declare: Callable[[Any], None]) -> amqp.AMQPError | None:
        """Call ``declare`` with a new channel. Return the error if the broker refuses, or None.

        After a refusal, the broker has closed the channel.
        """
        try:
            channel = connection.channel()
            declare(channel)
            channel.close()
        except _REFUSALS as error:
            return error
        return None
