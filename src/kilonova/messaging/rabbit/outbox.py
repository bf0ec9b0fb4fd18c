# SPDX-License-Identifier: Apache-2.0
"""Queues of messages to the broker: those not sent yet, and those that the broker has not confirmed yet."""

import itertools
import logging
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import amqp

from kilonova.logs.rate_limited_log import RateLimitedLog
from kilonova.messaging.rabbit.outgoing import OutgoingMessage

LOG = logging.getLogger(__name__)
#: Maximum number of messages in the outbox. It is a buffer for an outage of the broker, not for a slow broker.
MOST = 20_000
#: Maximum number of messages that are sent but not yet confirmed by the broker. Further messages have to wait.
WINDOW = 1000
#: Seconds after which an unconfirmed message is dropped. The broker never confirms a message to a queue that has no
#: leader; without this limit, ``WINDOW`` such messages would block all others.
CONFIRMED_WITHIN_S = 30.0
_PERSISTENT = 2


class Outbox:
    """Messages that are not sent yet or not confirmed by the broker yet.

    Messages of a broken connection are sent first, then urgent messages, then all others. Any thread may call ``add``
    and ``len``, which need no lock and never block. All other methods are only for the link's thread.
    """

    def __init__(self, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._name = name
        self._again: deque[OutgoingMessage] = deque()
        self._urgent: deque[OutgoingMessage] = deque()
        self._ordinary: deque[OutgoingMessage] = deque()
        #: Sequence number of a sent message, by which the broker confirms it → the message, and when it was sent.
        self._sent: dict[int, tuple[OutgoingMessage, float]] = {}
        self._number = 0
        self._complaints = RateLimitedLog(LOG)

    def __len__(self) -> int:
        return len(self._again) + len(self._urgent) + len(self._ordinary) + len(self._sent)

    def add(self, outgoing: OutgoingMessage, *, urgent: bool = False) -> None:
        if len(self) >= MOST:
            self._complaints.complain("full", f"{self._name}: {MOST} messages wait for the broker; one is dropped")
            return
        (self._urgent if urgent else self._ordinary).append(outgoing)

    @property
    def can_write(self) -> bool:
        return len(self._sent) < WINDOW and bool(self._again or self._urgent or self._ordinary)

    def write(self, channel: Any, user: str) -> None:
        """Send queued messages as ``user`` until ``WINDOW`` messages are unconfirmed.

        Raises: amqp.AMQPError, OSError.
        """
        while self.can_write:
            outgoing = (self._again or self._urgent or self._ordinary).popleft()
            if not outgoing.is_wanted():
                continue
            self._number += 1
            # The message is recorded before it is sent: if the sending fails halfway, it is sent again.
            self._sent[self._number] = (outgoing, self._clock())
            message = amqp.Message(outgoing.body, delivery_mode=_PERSISTENT, user_id=user)
            channel.basic_publish(message, outgoing.exchange, outgoing.key, mandatory=True)

    def confirmed(self, number: int, multiple: bool) -> None:
        for each in self._up_to(number) if multiple else (number,):
            self._sent.pop(each, None)

    def refused(self, number: int, multiple: bool) -> None:
        """Drop messages that the broker refused because their queue is full. Their senders retry later.

        The process that reads the queue is down or too slow.
        """
        for each in self._up_to(number) if multiple else [number]:
            outgoing, _ = self._sent.pop(each, (None, 0.0))
            if outgoing is not None:
                where = outgoing.key or outgoing.exchange
                self._complaints.complain(
                    f"full {where}", f"{self._name}: the queue of {where} is full; a message is lost"
                )

    def returned(self, error: Exception, exchange: str, key: str, message: Any) -> None:  # noqa: ARG002
        """Log a message that the broker could not route to a queue. The broker confirms such a message afterwards."""
        self._complaints.complain(
            f"no {exchange} {key}", f"{self._name}: there is no queue for {key or exchange}; a message is lost"
        )

    def expire(self) -> None:
        """Drop messages that the broker has not confirmed in time."""
        late = self._clock() - CONFIRMED_WITHIN_S
        for number, (outgoing, since) in list(itertools.islice(self._sent.items(), WINDOW)):
            if since > late:
                break
            del self._sent[number]
            where = outgoing.key or outgoing.exchange
            self._complaints.complain(f"late {where}", f"{self._name}: the broker does not confirm messages to {where}")

    def begin_anew(self) -> None:
        """Queue the unconfirmed messages of the closed connection again. The next connection counts messages from 1."""
        self._again.extendleft(outgoing for outgoing, _ in reversed(self._sent.values()))
        self._sent.clear()
        self._number = 0

    def _up_to(self, number: int) -> list[int]:
        return list(itertools.takewhile(lambda sent: sent <= number, self._sent))
