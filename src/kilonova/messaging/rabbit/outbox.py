# SPDX-License-Identifier: Apache-2.0
"""Queue of outgoing messages, and of sent messages that the broker has not confirmed."""

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
#: Maximum number of messages in the outbox: a buffer for an outage of the broker, not for a broker that is too slow.
MOST = 20_000
#: Maximum number of sent, unconfirmed messages.
WINDOW = 1000
#: Seconds after which an unconfirmed message counts as lost: its queue may have no leader, and others wait behind it.
CONFIRMED_WITHIN_S = 30.0
_PERSISTENT = 2


class Outbox:
    """Outgoing messages. Order of sending: messages to resend, urgent ones, the rest; each in order of arrival.

    ``add`` and ``len`` are for any thread, need no lock and never block; all else is for the link's thread.
    """

    def __init__(self, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._name = name
        self._again: deque[OutgoingMessage] = deque()
        self._urgent: deque[OutgoingMessage] = deque()
        self._ordinary: deque[OutgoingMessage] = deque()
        #: Sequence number for the broker's confirmation → the message, and the time at which it was sent.
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
        """Send queued messages as ``user``, up to the window of unconfirmed ones. Raises: amqp.AMQPError, OSError."""
        while self.can_write:
            outgoing = (self._again or self._urgent or self._ordinary).popleft()
            if not outgoing.is_wanted():
                continue
            self._number += 1
            # record the message first, because the write may fail halfway
            self._sent[self._number] = (outgoing, self._clock())
            message = amqp.Message(outgoing.body, delivery_mode=_PERSISTENT, user_id=user)
            channel.basic_publish(message, outgoing.exchange, outgoing.key, mandatory=True)

    def confirmed(self, number: int, multiple: bool) -> None:
        for each in self._up_to(number) if multiple else (number,):
            self._sent.pop(each, None)

    def refused(self, number: int, multiple: bool) -> None:
        """Drop a message whose queue is full: its reader is down or too slow, and its sender asks again later."""
        for each in self._up_to(number) if multiple else [number]:
            outgoing, _ = self._sent.pop(each, (None, 0.0))
            if outgoing is not None:
                where = outgoing.key or outgoing.exchange
                self._complaints.complain(
                    f"full {where}", f"{self._name}: the queue of {where} is full; a message is lost"
                )

    def returned(self, error: Exception, exchange: str, key: str, message: Any) -> None:  # noqa: ARG002
        """Log a message that the broker could route to no queue; the broker confirms it afterwards."""
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
        """Queue the unconfirmed messages of a closed connection for the next connection, which numbers them from 1."""
        self._again.extendleft(outgoing for outgoing, _ in reversed(self._sent.values()))
        self._sent.clear()
        self._number = 0

    def _up_to(self, number: int) -> list[int]:
        return list(itertools.takewhile(lambda sent: sent <= number, self._sent))
