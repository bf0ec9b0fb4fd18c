# SPDX-License-Identifier: Apache-2.0
"""Heartbeats of agent processes. All heartbeats received within about one second are written in one transaction."""

import threading
from concurrent.futures import Future
from datetime import timedelta

from kilonova.db import agent_sessions
from kilonova.db.agent_sessions import Session
from kilonova.db.database import Database
from kilonova.errors import Forbidden, Unavailable

#: Interval of the transactions in seconds: short compared with any lease, and long enough for large batches.
WRITTEN_EVERY_S = 1.0


class Heartbeats:
    """Collector of heartbeats; a periodic task writes them by :meth:`write`.

    ``lease``: duration of a session's lease after a heartbeat.
    """

    def __init__(self, database: Database, lease: timedelta) -> None:
        self._database = database
        self._lease = lease
        self._lock = threading.Lock()
        self._heard: dict[Session, Future[bool]] = {}
        self._is_closed = False

    def heard(self, session: Session) -> "Future[bool]":
        """Record a heartbeat of a session without blocking, and return a future.

        The future is resolved after the commit: True if the session is alive, False if its agent must register again.
        Errors of the future: Unavailable; Forbidden if the session belongs to another agent.
        Raises: Forbidden if the session's name is invalid.
        """
        agent_sessions.require_name(session)
        with self._lock:
            answer = self._heard.setdefault(session, Future())
            if self._is_closed:
                self._refuse_all()
            return answer

    def close(self) -> None:
        """Refuse all further heartbeats: this process stores no more of them. Agents send them to another process."""
        with self._lock:
            self._is_closed = True
            self._refuse_all()

    def _refuse_all(self) -> None:
        for answer in self._heard.values():
            answer.set_exception(Unavailable("This control process is stopping."))
        self._heard = {}

    def write(self) -> None:
        """Write the heartbeats received since the last write and resolve their futures. Raises: Unavailable."""
        with self._lock:
            heard, self._heard = self._heard, {}
        if not heard:
            return
        try:
            # If the database is unreachable, the write fails at once, so that agents use another control process.
            counting = self._database.write_unless_away(lambda tx: agent_sessions.keep_alive(tx, heard, self._lease))
        except Exception as error:
            for answer in heard.values():
                answer.set_exception(error)
            raise
        for session, answer in heard.items():
            counts = counting[session]
            if isinstance(counts, Forbidden):
                answer.set_exception(counts)
            else:
                answer.set_result(counts)
