# SPDX-License-Identifier: Apache-2.0
"""Health check of the database server: detects that the server hangs, and then fails all threads that wait for it.

A thread runs a trivial query periodically. If neither this query nor that of any other thread gets an answer, all
connections are shut down: every waiting thread gets the same error as if the server had stopped. Until the server
answers again, requests are refused at once, and the writer waits without sending statements.

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
#: A health check that fails within this fraction of its timeout was refused; a later failure counts as unanswered.
_PROMPT = 0.9


class Watch(Protocol):
    """Health check of the database."""

    @property
    def is_silent(self) -> bool:
        """Whether the server hangs, that is, has given no answer within the timeout."""

    def require_answers(self) -> None:
        """Raise Unavailable if the database server does not answer at present."""

    def wait(self, timeout_s: float) -> None:
        """Wait until the server answers, but no longer than ``timeout_s``."""

    def heard(self) -> None:
        """Record that the server has just answered a thread."""

    @property
    def periodic_threads(self) -> Sequence[PeriodicThread]:
        """The thread of the health check; empty until it is started."""

    def close(self) -> None: ...


class NoWatch:
    """Watch of SQLite, which has no server."""

    is_silent = False
    periodic_threads: Sequence[PeriodicThread] = ()

    def require_answers(self) -> None: ...

    def wait(self, timeout_s: float) -> None: ...

    def heard(self) -> None: ...

    def close(self) -> None: ...


class ServerWatch:
    """Watch of a database server; its thread starts with the first connection.

    ``connect``: opens a connection that waits at most ``response_timeout_s`` for an answer.
    """

    def __init__(self, connect: Connect, response_timeout_s: float) -> None:
        self._connect = connect
        self._timeout_s = response_timeout_s
        self._probe: Any = None
        self._heard_at = 0.0
        self._answers = threading.Event()
        self._answers.set()
        self._is_closed = False
        #: Guards the set of sockets and the start and stop of the thread.
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
        """Record that the server has just answered a thread: an earlier health check without answer is ignored.

        Once the server is declared hung, only a successful health check ends that state. All other connections have
        been shut down, so an answer that was read from such a connection arrived before the shutdown.
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
        """Register a driver's connection, which is shut down if the server hangs. :meth:`closed` removes it."""
        with self._lock:
            self._sockets[id(connection)] = socket_of(connection)
            if self._thread is None and not self._is_closed:
                self._thread = PeriodicThread(
                    "db-server-watch",
                    self._look,
                    self._timeout_s / 3,
                    description="Ask the database server whether it answers.",
                    complaint="The health check of the database server failed",
                )
                self._thread.start()

    def closed(self, connection: Any) -> None:
        """Remove a connection from the watch; no error if the connection is unknown."""
        with self._lock:
            known = self._sockets.pop(id(connection), None)
        if known is not None:
            known.close()

    # --- the thread ---------------------------------------------------------------------------------------------------

    def _look(self) -> None:
        began = time.monotonic()
        try:
            self._ask()
        except Exception as error:  # noqa: BLE001 - each driver has its own exceptions
            waited_s = time.monotonic() - began
            if waited_s < _PROMPT * self._timeout_s:
                self._answers.set()  # a stopped server refuses connections at once, so requests may try to connect
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
            with contextlib.suppress(Exception):  # the connection may be broken already
                probe.close()

    def _give_up(self, error: Exception) -> None:
        if not self.is_silent:
            LOG.error("The database server has not answered for %g s: %s", self._timeout_s, error)
            self._answers.clear()
        with self._lock:
            for each in self._sockets.values():
                with contextlib.suppress(OSError):  # the connection may be broken already
                    each.shutdown(socket.SHUT_RDWR)

    def _take_up(self) -> None:
        if self.is_silent:
            LOG.info("The database server answers again")
            self._answers.set()
