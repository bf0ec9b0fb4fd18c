# SPDX-License-Identifier: Apache-2.0
"""One connection to the broker, and the only thread that uses it.

Senders queue a message and continue. The broker confirms messages in batches. When a connection breaks, its unconfirmed
messages are sent again over the next connection, so that they are not lost, but may arrive twice. A delivery is
acknowledged when its consumer calls ``acknowledge``. A broken connection is replaced by a connection to the next server
of the broker.
"""

import contextlib
import logging
import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import amqp

from kilonova.logs.rate_limited_log import RateLimitedLog
from kilonova.messaging.rabbit.acknowledgements import Acknowledgements
from kilonova.messaging.rabbit.connection import BROKEN, close, connect, discard
from kilonova.messaging.rabbit.outbox import Outbox
from kilonova.messaging.rabbit.outgoing import Delivery, OutgoingMessage
from kilonova.messaging.rabbit.transport_url import BrokerAddress, Transport

LOG = logging.getLogger(__name__)

Take = Callable[[Delivery], None]
#: Maximum number of unacknowledged deliveries of one queue, which limits the memory that a flood can use.
PREFETCH = 200
#: Maximum number of deliveries that the thread receives in a row before it sends outgoing messages.
_TAKEN_TOGETHER = 100
#: Longest sleep of the thread in seconds, short enough to notice missing heartbeats.
_LONGEST_SLEEP_S = 1.0
#: Minimum number of heartbeat checks in each heartbeat interval. With only one, a busy thread would send its heartbeats
#: late if the interval is 1 s.
_TICKS_A_HEARTBEAT = 5
#: A connection that breaks within this many seconds counts as a failed connection attempt.
_LASTING_S = 10.0
_SHORT_PAUSE_S = 0.1
#: Seconds that ``Link.close`` waits for the thread in addition to its timeout. All blocking calls of the thread have
#: shorter timeouts.
_CLOSED_AFTER_S = 20.0
#: Timeout in seconds for reading only frames that have already arrived. With 0, py-amqp would loop without end.
_NO_TIME_S = 1e-6


class Link:
    """A connection to the broker, with the thread that uses it. A broken connection is replaced.

    Call ``start`` first and ``close`` at the end. ``name``: name of the connection at the broker. ``on_connected``:
    called on the link's thread after each connect. ``may_write``: returns whether queued messages may be sent; call
    :meth:`write_now` when that becomes true.
    """

    def __init__(
        self,
        transport: Transport,
        name: str,
        on_connected: Callable[[], None] = lambda: None,
        may_write: Callable[[], bool] = lambda: True,
    ) -> None:
        self._may_write = may_write
        self._transport = transport
        self._name = name
        self._on_connected = on_connected
        self._outbox = Outbox(name)
        self._acknowledged: deque[Delivery] = deque()
        self._consumptions: deque[tuple[int, str, Take | None]] = deque()
        self._longest_sleep_s = min(_LONGEST_SLEEP_S, transport.heartbeat_s / _TICKS_A_HEARTBEAT)
        self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._sleeps = False
        self._closing = threading.Event()
        self._closes_by = float("inf")
        self._epoch = 0
        self._is_connected = False
        self._is_blocked = False
        self._complaints = RateLimitedLog(LOG)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    # --- for any thread: only close() blocks ---

    @property
    def epoch(self) -> int:
        """Number of the current connection; 0 while disconnected. Tags of earlier connections are invalid."""
        return self._epoch if self._is_connected else 0

    @property
    def is_connected(self) -> bool:
        return self._is_connected

    @property
    def waiting(self) -> int:
        """Number of messages that are queued or not confirmed by the broker."""
        return len(self._outbox)

    def start(self) -> None:
        self._thread.start()

    def send(self, outgoing: OutgoingMessage, *, urgent: bool = False) -> None:
        """Queue a message. If the queue is full, drop the message and log that."""
        self._outbox.add(outgoing, urgent=urgent)
        self._ring()

    def acknowledge(self, delivery: Delivery) -> None:
        """Acknowledge a delivery as handled. If its connection broke, the broker redelivers the message anyway."""
        self._acknowledged.append(delivery)
        self._ring()

    def consume(self, epoch: int, queue: str, take: Take) -> None:
        """Consume an existing queue over connection number ``epoch``. No effect if another connection is current.

        ``take``: called with each delivery, on the link's thread.
        """
        self._consumptions.append((epoch, queue, take))
        self._ring()

    def cancel(self, epoch: int, queue: str) -> None:
        """Stop consuming a queue over connection number ``epoch``."""
        self._consumptions.append((epoch, queue, None))
        self._ring()

    def write_now(self) -> None:
        """Wake the link's thread, which sends the queued messages if ``may_write`` now returns True."""
        self._ring()

    def close(self, timeout_s: float = 5.0) -> None:
        """Send the queued messages within ``timeout_s``, and close the connection."""
        self._closes_by = time.monotonic() + timeout_s
        self._closing.set()
        self._ring()
        if self._thread.is_alive():
            self._thread.join(timeout_s + _CLOSED_AFTER_S)
        if not self._thread.is_alive() and self._bell >= 0:
            self._sleeps = False
            os.close(self._bell)
            self._bell = -1

    def _ring(self) -> None:
        if self._sleeps:
            os.eventfd_write(self._bell, 1)

    # --- on the thread of the link ---

    def _run(self) -> None:
        failures = 0
        addresses = self._transport.servers()
        while not self._is_over():
            began_at = time.monotonic()
            self._try(next(addresses))
            failures = 0 if time.monotonic() - began_at > _LASTING_S else failures + 1
            rounds, rest = divmod(failures, len(self._transport.url.brokers))
            if rounds and not rest and self._closing.wait(self._transport.pause_s(rounds)):
                time.sleep(_SHORT_PAUSE_S)

    def _try(self, address: BrokerAddress) -> None:
        """Open a connection and use it until it breaks or the link is closed."""
        try:
            connection = connect(self._transport, address, self._name)
        except Exception as error:  # noqa: BLE001 - UnicodeError for an invalid name, any error if it is no AMQP server
            self._complaints.complain("connect", f"{self._name}: no connection to {address.host}: {_why(error)}")
            return
        self._epoch += 1
        try:
            self._session(connection, address)
        except BROKEN as error:
            LOG.warning("%s: the connection to the broker at %s broke: %s", self._name, address.host, _why(error))
        except Exception:
            LOG.exception("%s: the connection to the broker at %s is dropped after an error", self._name, address.host)
        else:
            close(connection)
            return
        finally:
            self._is_connected = self._is_blocked = False
            self._outbox.begin_anew()
        discard(connection)

    def _session(self, connection: amqp.Connection, address: BrokerAddress) -> None:
        inbox, out = connection.channel(), connection.channel()
        inbox.auto_decode = False
        inbox.basic_qos(0, PREFETCH, a_global=False)
        out.confirm_select()
        out.events["basic_ack"].add(self._outbox.confirmed)
        out.events["basic_nack"].add(self._outbox.refused)
        out.events["basic_return"].add(self._outbox.returned)
        connection.on_blocked, connection.on_unblocked = self._block, self._unblock
        acknowledgements = Acknowledgements()
        self._is_connected = True
        LOG.info("%s: connected to the broker at %s", self._name, address.host)
        self._on_connected()
        ticked_at = time.monotonic()
        while not self._is_over():
            self._change_consumption(inbox, acknowledgements)
            acknowledgements.acknowledge(inbox, self._newly_acknowledged())
            if self._can_write:
                self._outbox.write(out, address.user)
            is_drained = not self._take_in(connection, inbox, acknowledgements)
            # The heartbeat check comes after reading: frames that arrived while this thread was not scheduled prove
            # that the broker is alive.
            if time.monotonic() - ticked_at >= self._longest_sleep_s:
                ticked_at = time.monotonic()
                connection.heartbeat_tick()
                self._outbox.expire()
            if is_drained:
                self._sleep(connection.sock)

    def _change_consumption(self, inbox: Any, acknowledgements: Acknowledgements) -> None:
        while self._consumptions:
            epoch, queue, take = self._consumptions.popleft()
            if epoch != self._epoch:
                continue
            if take is None:
                inbox.basic_cancel(queue, nowait=True)
                continue
            # nowait: the broker never answers for a queue without a leader, and this thread would wait for the answer.
            inbox.basic_consume(
                queue,
                consumer_tag=queue,
                nowait=True,
                callback=self._taker(take, acknowledgements),
            )

    def _taker(self, take: Take, acknowledgements: Acknowledgements) -> Callable[[Any], None]:
        epoch = self._epoch

        def taken(message: Any) -> None:
            tag = message.delivery_tag
            acknowledgements.delivered(tag)
            user = message.properties.get("user_id", "")
            body = message.body  # py-amqp returns an empty body as str, all others as bytes
            data = body.encode() if isinstance(body, str) else bytes(body)
            delivery = Delivery(data, message.delivery_info["exchange"], user, epoch, tag)
            try:
                take(delivery)
            except Exception:
                LOG.exception("%s: the consumer of a message failed", self._name)
                self.acknowledge(delivery)  # otherwise the broker would redeliver the message for ever

        return taken

    def _newly_acknowledged(self) -> list[int]:
        tags: list[int] = []
        while self._acknowledged:
            delivery = self._acknowledged.popleft()
            if delivery.epoch == self._epoch:
                tags.append(delivery.tag)
        return tags

    def _take_in(self, connection: amqp.Connection, inbox: Any, acknowledgements: Acknowledgements) -> bool:
        """Read deliveries of the broker; return False if no more have arrived yet."""
        for _ in range(_TAKEN_TOGETHER):
            try:
                connection.drain_events(timeout=_NO_TIME_S)
            except TimeoutError:
                return False
            except UnicodeError as error:  # a routing key may be invalid UTF-8, since the broker does not check it
                self._complaints.complain(
                    "unreadable", f"{self._name}: a message that cannot be read is dropped: {error}"
                )
                acknowledgements.acknowledge(inbox, [acknowledgements.missed()])
        return True

    def _sleep(self, sock: Any) -> None:
        """Sleep until the broker or another thread has work for this thread."""
        # The flag is set before the check below, so that a thread that queues work after the check wakes this thread.
        self._sleeps = True
        if not self._has_something_to_do():
            poll = select.poll()  # select() supports no file descriptors above 1,023
            poll.register(self._bell, select.POLLIN)
            poll.register(sock, select.POLLIN)
            poll.poll(self._longest_sleep_s * 1000)
        self._sleeps = False
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._bell)

    def _has_something_to_do(self) -> bool:
        return bool(
            self._acknowledged
            or self._consumptions
            or (self._closing.is_set() and not self._outbox)
            or (self._outbox.can_write and self._can_write)
        )

    @property
    def _can_write(self) -> bool:
        return not self._is_blocked and self._may_write()

    def _is_over(self) -> bool:
        return self._closing.is_set() and (not self._outbox or time.monotonic() > self._closes_by)

    def _block(self, reason: str) -> None:
        LOG.warning("%s: the broker blocks publishers: %s", self._name, reason)
        self._is_blocked = True

    def _unblock(self) -> None:
        LOG.info("%s: the broker accepts messages again", self._name)
        self._is_blocked = False


def _why(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
