# SPDX-License-Identifier: Apache-2.0
"""Notice that a database server does not answer any more, and let nobody wait for it.

A thread asks the server something easy all the time. Where no answer comes, neither to it nor to anybody else, every
connection is shut down: whoever waits there learns that the server is away, as when it had been stopped. Until it
answers again requests are refused at once, and the writer waits without trying.

::

    answering ──no answer for response_timeout──▶ hung: connections shut down, reads refused ──an answer──▶ answering
"""

import contextlib
import logging
import socket
import threading
import time
from collections.abc import Sequence
from typing import Any, Protocol

from kilonova.db.core.socket_timeouts import Connect, socket_of
from kilonova.errors import Unavailable
from kilonova.periodic import PeriodicThread

LOG = logging.getLogger(__name__)
AWAY = "The database cannot be reached."
_EASY = "SELECT 1"
#: How much of its time limit a question may have taken that was refused rather than left unanswered.
_PROMPT = 0.9


class Watch(Protocol):
    """Whether it makes sense to ask the database."""

    @property
    def is_silent(self) -> bool:
        """Whether the server is there and does not answer."""

    def require_answers(self) -> None:
        """Raises: Unavailable, while the server does not answer."""

    def wait(self, timeout_s: float) -> None:
        """Wait until the server answers, but no longer than ``timeout_s``."""

    def heard(self) -> None:
        """Note that the server has answered somebody."""

    @property
    def periodic_threads(self) -> Sequence[PeriodicThread]:
        """The thread that asks the server, once there is one."""

    def close(self) -> None: ...


class NoWatch:
    """Of a database without a server."""

    is_silent = False
    periodic_threads: Sequence[PeriodicThread] = ()

    def require_answers(self) -> None: ...

    def wait(self, timeout_s: float) -> None: ...

    def heard(self) -> None: ...

    def close(self) -> None: ...


class ServerWatch:
    """Begins with the first connection. ``connect``: makes one that waits at most ``response_timeout_s``."""

    def __init__(self, connect: Connect, response_timeout_s: float) -> None:
        self._connect = connect
        self._timeout_s = response_timeout_s
        self._probe: Any = None
        self._heard_at = 0.0
        self._answers = threading.Event()
        self._answers.set()
        self._is_closed = False
        #: Held while connections and the thread come and go.
        self._lock = threading.Lock()
        self._sockets: dict[int, socket.socket] = {}
        self._thread: PeriodicThread | None = None

    @property
    def is_silent(self) -> bool:
        return not self._answers.is_set()

    def require_answers(self) -> None:
        if self.is_silent:
            raise Unavailable(AWAY)

    def wait(self, timeout_s: float) -> None:
        self._answers.wait(timeout_s)

    def heard(self) -> None:
        """Note that the server has answered somebody: it is not given up for a question that was asked before.

        Once it is given up only an answer to the thread's own question counts: all other connections are shut down, so
        whoever comes with an answer then got it long ago.
        """
        self._heard_at = time.monotonic()

    @property
    def periodic_threads(self) -> Sequence[PeriodicThread]:
        thread = self._thread
        return () if thread is None else (thread,)

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            thread, self._thread = self._thread, None
        if thread is not None:
            thread.stop()
        self._close_probe()
        for each in self._sockets.values():
            each.close()
        self._sockets.clear()

    def connected(self, connection: Any) -> None:
        """Watch over a driver's connection until it is :meth:`closed`."""
        with self._lock:
            self._sockets[id(connection)] = socket_of(connection)
            if self._thread is None and not self._is_closed:
                self._thread = PeriodicThread(
                    "db-server-watch",
                    self._look,
                    self._timeout_s / 3,
                    description="Ask the database server whether it answers.",
                    complaint="The database server could not be watched",
                )
                self._thread.start()

    def closed(self, connection: Any) -> None:
        """Forget a connection; an unknown one is success."""
        with self._lock:
            known = self._sockets.pop(id(connection), None)
        if known is not None:
            known.close()

    # --- the thread ---------------------------------------------------------------------------------------------------

    def _look(self) -> None:
        began = time.monotonic()
        try:
            self._ask()
        except Exception as error:  # noqa: BLE001 - of whichever driver
            waited_s = time.monotonic() - began
            if waited_s < _PROMPT * self._timeout_s:
                self._answers.set()  # it is away, or shutting down; everybody hears that at once
            elif self._heard_at < began:
                self._give_up(error)
        else:
            self._take_up()

    def _ask(self) -> None:
        try:
            if self._probe is None:
                self._probe = self._connect()
            cursor = self._probe.cursor()
            cursor.execute(_EASY)
            cursor.fetchone()
            cursor.close()
            self._probe.rollback()
        except BaseException:
            self._close_probe()
            raise

    def _close_probe(self) -> None:
        probe, self._probe = self._probe, None
        if probe is not None:
            with contextlib.suppress(Exception):  # it is broken
                probe.close()

    def _give_up(self, error: Exception) -> None:
        if not self.is_silent:
            LOG.error("The database server has not answered for %g s: %s", self._timeout_s, error)
            self._answers.clear()
        with self._lock:
            for each in self._sockets.values():
                with contextlib.suppress(OSError):  # broken already
                    each.shutdown(socket.SHUT_RDWR)

    def _take_up(self) -> None:
        if self.is_silent:
            LOG.info("The database server answers again")
            self._answers.set()
