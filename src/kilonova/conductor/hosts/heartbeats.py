# SPDX-License-Identifier: Apache-2.0
"""Heartbeats of agent processes, batched: the heartbeats of about one second are written in one transaction."""

import threading
from concurrent.futures import Future
from datetime import timedelta

from kilonova.db import agent_sessions
from kilonova.db.agent_sessions import Session
from kilonova.db.database import Database
from kilonova.errors import Forbidden, Unavailable

#: Interval of the writes in seconds: short compared with any lease, and long enough for large batches.
WRITTEN_EVERY_S = 1.0


class Heartbeats:
    """Collects heartbeats until a periodic task calls :meth:`write`. ``lease``: lifetime of a session after each."""

    def __init__(self, database: Database, lease: timedelta) -> None:
        self._database = database
        self._lease = lease
        self._lock = threading.Lock()
        self._heard: dict[Session, Future[bool]] = {}
        self._is_closed = False

    def heard(self, session: Session) -> "Future[bool]":
        """Record a heartbeat of a session without blocking.

        After the commit, the future returns whether the session is alive; if not, its agent must register again. It
        raises Unavailable, or Forbidden for the session of another agent.
        Raises: Forbidden if the session's name is invalid.
        """
        agent_sessions.require_name(session)
        with self._lock:
            answer = self._heard.setdefault(session, Future())
            if self._is_closed:
                self._refuse_all()
            return answer

    def close(self) -> None:
        """Refuse all heartbeats from now on, as they are no longer written; agents then use another control process."""
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
            # If the database is unreachable, agents use another control process.
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
