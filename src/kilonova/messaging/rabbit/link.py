# SPDX-License-Identifier: Apache-2.0
"""One connection to the broker, and the only thread that touches it.

Whoever sends leaves a message and goes on. The broker confirms messages in batches; those that were not confirmed when
the connection broke are sent again, so that a message may come twice, but is not lost while this process lives. What
was received is acknowledged when its taker says so. A connection that breaks is replaced by one to the next server.
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
#: Most deliveries of one queue that are not acknowledged: what a flood can occupy here.
PREFETCH = 200
#: Deliveries taken before it is the turn of what is to be sent.
_TAKEN_TOGETHER = 100
#: The longest that the thread sleeps, so that it notices heartbeats that are missing.
_LONGEST_SLEEP_S = 1.0
#: A heartbeat that is a second long is missed by whoever looks once a second, with anything else to do.
_TICKS_A_HEARTBEAT = 5
#: A connection that breaks sooner counts like one that was never made.
_LASTING_S = 10.0
_SHORT_PAUSE_S = 0.1
#: How much longer than it was asked to the thread may go on: whatever it does at a time ends within seconds.
_CLOSED_AFTER_S = 20.0
#: py-amqp has no call that takes only what is there already: zero seconds would make it turn in circles.
_NO_TIME_S = 1e-6


class Link:
    """``name``: what operators see at the broker. ``on_connected``: told on the link's thread of each new connection.

    Start it, and close it at the end.
    """

    def __init__(self, transport: Transport, name: str, on_connected: Callable[[], None] = lambda: None) -> None:
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

    # --- for any thread: nothing here waits, but for close() ---

    @property
    def epoch(self) -> int:
        """The number of the present connection, 0 when there is none. What belonged to another means nothing now."""
        return self._epoch if self._is_connected else 0

    @property
    def is_connected(self) -> bool:
        return self._is_connected

    @property
    def waiting(self) -> int:
        """How many messages the broker has not confirmed."""
        return len(self._outbox)

    def start(self) -> None:
        self._thread.start()

    def send(self, outgoing: OutgoingMessage, *, urgent: bool = False) -> None:
        """Have a message sent. When too many wait it is dropped, and that is logged."""
        self._outbox.add(outgoing, urgent=urgent)
        self._ring()

    def acknowledge(self, delivery: Delivery) -> None:
        """Tell the broker that a delivery is dealt with. One of an earlier connection comes again."""
        self._acknowledged.append(delivery)
        self._ring()

    def consume(self, epoch: int, queue: str, take: Take) -> None:
        """Have what comes into a queue, which exists, go to ``take`` on the link's thread, while ``epoch`` lasts."""
        self._consumptions.append((epoch, queue, take))
        self._ring()

    def cancel(self, epoch: int, queue: str) -> None:
        """Take nothing more from a queue."""
        self._consumptions.append((epoch, queue, None))
        self._ring()

    def close(self, patience_s: float = 5.0) -> None:
        """Send what waits, as far as that succeeds in time, and end the connection."""
        self._closes_by = time.monotonic() + patience_s
        self._closing.set()
        self._ring()
        if self._thread.is_alive():
            self._thread.join(patience_s + _CLOSED_AFTER_S)
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
        """Work with a connection until it breaks or the link is closed."""
        try:
            connection = connect(self._transport, address, self._name)
        except Exception as error:  # noqa: BLE001  a name that is none raises UnicodeError, a server that is no broker anything
            self._complaints.complain("connect", f"{self._name}: no connection to {address.host}: {_why(error)}")
            return
        self._epoch += 1
        try:
            self._session(connection, address)
        except BROKEN as error:
            LOG.warning("%s: the connection to the broker at %s broke: %s", self._name, address.host, _why(error))
        except Exception:
            LOG.exception("%s: the connection to the broker at %s is given up", self._name, address.host)
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
            if not self._is_blocked:
                self._outbox.write(out, address.user)
            is_drained = not self._take_in(connection, inbox, acknowledgements)
            # Only now: what the broker has sent while this thread was kept from running shows that it is there.
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
            # A queue without a leader would never answer, and hold up all others: nowait.
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
            body = message.body  # a text where there is none
            data = body.encode() if isinstance(body, str) else bytes(body)
            delivery = Delivery(data, message.delivery_info["exchange"], user, epoch, tag)
            try:
                take(delivery)
            except Exception:
                LOG.exception("%s: a message could not be taken", self._name)
                self.acknowledge(delivery)  # it would come again for ever

        return taken

    def _newly_acknowledged(self) -> list[int]:
        tags: list[int] = []
        while self._acknowledged:
            delivery = self._acknowledged.popleft()
            if delivery.epoch == self._epoch:
                tags.append(delivery.tag)
        return tags

    def _take_in(self, connection: amqp.Connection, inbox: Any, acknowledgements: Acknowledgements) -> bool:
        """Take what the broker has sent. Tells whether there may be more."""
        for _ in range(_TAKEN_TOGETHER):
            try:
                connection.drain_events(timeout=_NO_TIME_S)
            except TimeoutError:
                return False
            except UnicodeError as error:  # of a routing key, which the broker lets anybody write as he likes
                self._complaints.complain(
                    "unreadable", f"{self._name}: a message that cannot be read is dropped: {error}"
                )
                acknowledgements.acknowledge(inbox, [acknowledgements.missed()])
        return True

    def _sleep(self, sock: Any) -> None:
        """Sleep until the broker or anybody here has something for this thread."""
        self._sleeps = True  # first: whoever brings something after the look below rings
        if not self._has_something_to_do():
            poll = select.poll()  # select() itself knows no descriptors above 1,023
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
            or (self._outbox.can_write and not self._is_blocked)
        )

    def _is_over(self) -> bool:
        return self._closing.is_set() and (not self._outbox or time.monotonic() > self._closes_by)

    def _block(self, reason: str) -> None:
        LOG.warning("%s: the broker takes no messages at present: %s", self._name, reason)
        self._is_blocked = True

    def _unblock(self) -> None:
        LOG.info("%s: the broker takes messages again", self._name)
        self._is_blocked = False


def _why(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
