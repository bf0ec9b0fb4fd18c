# SPDX-License-Identifier: Apache-2.0
"""The connections whose answers are streams of events: one thread sends to all of them (ADR 43).

A stream is asked for its next bytes only when its client has received all previous ones, so a slow client holds one
piece. A client that does not receive a piece in time, or that sends data of its own, is disconnected.
"""

import contextlib
import logging
import os
import select
import threading
import time

from kilonova.server.connection import NEVER, Connection, Phase
from kilonova.server.event_stream import EventStream

LOG = logging.getLogger(__name__)
_IN = select.EPOLLIN | select.EPOLLRDHUP
#: Number of bytes that a client may send during a stream.
_MOST_INPUT = 64 * 1024
_LOOK_EVERY_S = 1.0


class EventStreams:
    """The streams of a server. ``piece_s``: time in which a client must receive one piece."""

    def __init__(self, piece_s: float) -> None:
        self._piece_s = piece_s
        self._epoll = select.epoll()
        self._wakeup = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._lock = threading.Lock()
        self._streams: dict[Connection, tuple[EventStream, int]] = {}
        self._is_stopped = False
        self._thread: threading.Thread | None = None

    def __len__(self) -> int:
        return len(self._streams)

    def adopt(self, connection: Connection, stream: EventStream) -> None:
        """Send a stream on a connection from now on. The caller holds the lock of the connection."""
        connection.phase, connection.until = Phase.STREAMING, NEVER
        connection.stream = stream
        with self._lock:
            if self._is_stopped:
                connection.close()
                return
            number = connection.sock.fileno()  # no event of the server's epoll object is armed for it any more
            self._streams[connection] = stream, number
            self._epoll.register(number, _IN)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="http-streams", daemon=True)
                self._thread.start()
        stream.attach(self.wake)
        self.wake()

    def wake(self) -> None:
        """Make the thread ask each stream whether it has bytes to send."""
        with self._lock:
            if not self._is_stopped:
                os.eventfd_write(self._wakeup, 1)

    def stop(self) -> None:
        """Close all connections with streams."""
        with self._lock:
            if self._is_stopped:
                return
            os.eventfd_write(self._wakeup, 1)
            self._is_stopped = True
            thread = self._thread
        if thread is not None:
            thread.join()
        for connection in list(self._streams):
            with connection.lock:
                connection.close()
            self._forget(connection)
        self._epoll.close()
        os.close(self._wakeup)

    def _run(self) -> None:
        self._epoll.register(self._wakeup, select.EPOLLIN)
        while not self._is_stopped:
            self._epoll.poll(_LOOK_EVERY_S)
            with contextlib.suppress(BlockingIOError):
                os.eventfd_read(self._wakeup)
            for connection, (stream, number) in list(self._streams.items()):
                with connection.lock:
                    try:
                        self._attend(connection, stream, number)
                    except Exception:
                        LOG.exception("A stream of events failed")
                        connection.close()
                if connection.is_closed:
                    self._forget(connection)

    def _forget(self, connection: Connection) -> None:
        """Remove a closed connection. Its descriptor, which may be in use again, has left the epoll object already."""
        with self._lock:
            self._streams.pop(connection, None)

    def _attend(self, connection: Connection, stream: EventStream, number: int) -> None:
        """Send what the client takes. The caller holds the lock of the connection."""
        if connection.is_closed or not _is_quiet(connection):
            connection.close()
            return
        if connection.out and not self._send_rest(connection, number):
            return
        while not connection.is_closed:
            piece = stream.take()
            if piece is None:
                connection.close()
                return
            if not piece:
                break
            connection.send(piece)
            if connection.out:
                connection.until = time.monotonic() + self._piece_s
                self._epoll.modify(number, _IN | select.EPOLLOUT)
                return

    def _send_rest(self, connection: Connection, number: int) -> bool:
        until = connection.until
        is_sent = connection.send_rest()
        if connection.is_closed:
            return False
        if not is_sent:
            # the time is for the whole piece, however slowly the client takes it
            connection.until = time.monotonic() + self._piece_s if until == NEVER else until
            return False
        connection.until = NEVER
        self._epoll.modify(number, _IN)
        return True


def _is_quiet(connection: Connection) -> bool:
    """Read what the client sends; False if it has gone or sends too much."""
    while data := connection.receive():
        connection.head_bytes += len(data)
        if connection.head_bytes > _MOST_INPUT:
            return False
    return data is None
