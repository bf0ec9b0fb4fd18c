# SPDX-License-Identifier: Apache-2.0
"""Heartbeats of agent processes: all that were heard within about a second are written in one transaction."""

import threading
from concurrent.futures import Future
from datetime import timedelta

from kilonova.db import agent_sessions
from kilonova.db.agent_sessions import Session
from kilonova.db.database import Database
from kilonova.errors import Forbidden, Unavailable

#: How long a heartbeat waits for others: short beside any lease, and long enough that one commit has many of them.
WRITTEN_EVERY_S = 1.0


class Heartbeats:
    """``lease``: how long a session counts as alive after a heartbeat. Somebody has to call :meth:`write` regularly."""

    def __init__(self, database: Database, lease: timedelta) -> None:
        self._database = database
        self._lease = lease
        self._lock = threading.Lock()
        self._heard: dict[Session, Future[bool]] = {}
        self._is_closed = False

    def heard(self, session: Session) -> "Future[bool]":
        """Note a heartbeat of a session without waiting.

        The future tells whether the session counts as alive once that is durable, or raises Unavailable, or Forbidden
        for the session of another agent. One that does not count has to register again. Raises: Forbidden for what
        can be no session.
        """
        agent_sessions.require_name(session)
        with self._lock:
            answer = self._heard.setdefault(session, Future())
            if self._is_closed:
                self._refuse_all()
            return answer

    def close(self) -> None:
        """Answer no more, now that nobody writes any more: another control process is asked next."""
        with self._lock:
            self._is_closed = True
            self._refuse_all()

    def _refuse_all(self) -> None:
        for answer in self._heard.values():
            answer.set_exception(Unavailable("This control process ends."))
        self._heard = {}

    def write(self) -> None:
        """Write what was heard since the last time, and answer it. Raises: Unavailable."""
        with self._lock:
            heard, self._heard = self._heard, {}
        if not heard:
            return
        try:
            counting = self._database.write_unless_away(  # agents ask another control process
                lambda tx: agent_sessions.keep_alive(tx, heard, self._lease)
            )
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
