# SPDX-License-Identifier: Apache-2.0
"""Has the queues of all enrolled agents there and read, whatever becomes of the broker.

Queues are made over a connection of their own, so that one which never answers, because it has lost its leader, holds
nothing else up.
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
#: How often agents that were enrolled or revoked are looked for.
_EVERY_S = 5.0
#: What a broker says when this user may not make something, has found another one of that name, or has found none.
_REFUSALS = (amqp.AccessRefused, amqp.PreconditionFailed, amqp.NotFound)


class QueueKeeper:
    """Reads for ``process`` over ``link``. ``hear``: takes what comes from an agent; ``take``: from other processes."""

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
        #: The agents whose queues are read over the present connection of the link.
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
        """Whether the queues of all agents are read."""
        return self._epoch == self._link.epoch and self._read >= set(self._routes.enrolled())

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
                self._complaints.complain("broken", f"{self._name}: queues could not be looked at: {error}")
            except Exception:
                LOG.exception("%s: queues could not be looked at", self._name)
            self._look.wait(_EVERY_S)
            self._look.clear()

    def _follow(self) -> None:
        """Read the queues of those who are enrolled now, and of nobody else."""
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
        """Read what other control processes pass on."""
        self._refusal(connection, declare_exchange)  # the operator may have made it
        why = self._refusal(connection, partial(declare_control, process=self._process))
        if why is not None:
            raise why
        self._link.consume(epoch, to_control(self._process), self._take)
        self._epoch = epoch

    def _is_there(self, connection: amqp.Connection, agent: str) -> bool:
        """Make what an agent needs; tell whether it is there."""
        why = self._refusal(connection, partial(declare_agent, agent=agent))
        if why is None or self._refusal(connection, partial(check_agent, agent=agent)) is None:
            return True
        self._complaints.complain(
            f"missing {agent}",
            f"{self._name}: agent {agent} cannot be heard: its queues are not there, and this user may not make "
            f"them ({why}). Import the definitions that its enrolment printed.",
        )
        return False

    def _refusal(self, connection: amqp.Connection, declare: Callable[[Any], None]) -> amqp.AMQPError | None:
        """Declare something; return why the broker will not have it, for which it closes the channel."""
        try:
            channel = connection.channel()
            declare(channel)
            channel.close()
        except _REFUSALS as error:
            return error
        return None
