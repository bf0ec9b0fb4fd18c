# SPDX-License-Identifier: Apache-2.0
"""Letters that wait to be sent, and those that the broker has not confirmed."""

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
#: Most messages that wait here. They are for a broker that has been away for a while, not for one that is too slow.
MOST = 20_000
#: Most messages on their way to the broker.
WINDOW = 1000
#: When a message counts as lost: its queue may have no leader, and the others must not wait behind it for ever.
CONFIRMED_WITHIN_S = 30.0
_PERSISTENT = 2


class Outbox:
    """First goes what may have been sent before, then what is urgent, then the rest, each in order.

    ``add`` and ``len`` are for any thread, need no lock and never wait; the rest is for that of the link.
    """

    def __init__(self, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._name = name
        self._again: deque[OutgoingMessage] = deque()
        self._urgent: deque[OutgoingMessage] = deque()
        self._ordinary: deque[OutgoingMessage] = deque()
        #: By the number that the broker confirms, which counts up: the message, and when it was sent.
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
        """Send what there is room for, as ``user``. Raises: amqp.AMQPError, OSError."""
        while self.can_write:
            outgoing = (self._again or self._urgent or self._ordinary).popleft()
            if not outgoing.is_wanted():
                continue
            self._number += 1
            self._sent[self._number] = (outgoing, self._clock())  # before it is written: that may fail halfway
            message = amqp.Message(outgoing.body, delivery_mode=_PERSISTENT, user_id=user)
            channel.basic_publish(message, outgoing.exchange, outgoing.key, mandatory=True)

    def confirmed(self, number: int, multiple: bool) -> None:
        for each in self._up_to(number) if multiple else (number,):
            self._sent.pop(each, None)

    def refused(self, number: int, multiple: bool) -> None:
        """Drop a message whose queue is full: its reader is away or too slow, and is asked later."""
        for each in self._up_to(number) if multiple else [number]:
            outgoing, _ = self._sent.pop(each, (None, 0.0))
            if outgoing is not None:
                where = outgoing.key or outgoing.exchange
                self._complaints.complain(
                    f"full {where}", f"{self._name}: the queue of {where} is full; a message is lost"
                )

    def returned(self, error: Exception, exchange: str, key: str, message: Any) -> None:  # noqa: ARG002
        """Drop a message that leads to no queue; it is confirmed as well."""
        self._complaints.complain(
            f"no {exchange} {key}", f"{self._name}: nothing leads to {key or exchange}; a message is lost"
        )

    def expire(self) -> None:
        """Give up messages that the broker has not confirmed for long."""
        late = self._clock() - CONFIRMED_WITHIN_S
        for number, (outgoing, since) in list(itertools.islice(self._sent.items(), WINDOW)):
            if since > late:
                break
            del self._sent[number]
            where = outgoing.key or outgoing.exchange
            self._complaints.complain(f"late {where}", f"{self._name}: the broker does not confirm messages to {where}")

    def begin_anew(self) -> None:
        """Have what a connection has not confirmed sent again by the next one, which counts from 1."""
        self._again.extendleft(outgoing for outgoing, _ in reversed(self._sent.values()))
        self._sent.clear()
        self._number = 0

    def _up_to(self, number: int) -> list[int]:
        return list(itertools.takewhile(lambda sent: sent <= number, self._sent))
