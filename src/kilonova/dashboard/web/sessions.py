# SPDX-License-Identifier: Apache-2.0
"""Sessions of signed-in users. The browser has a random key; the server has the key's hash and the Keystone token."""

import asyncio
import hashlib
import secrets
from collections.abc import Callable
from dataclasses import field
from datetime import UTC, datetime

from kilonova.dashboard.upstream.cloud_api import Login, Project
from kilonova.records import dataclass

#: Maximum number of sessions, in all and of one user; the oldest are ended.
_MOST, _MOST_OF_USER = 5_000, 20


@dataclass(slots=True, eq=False)
class Session:
    """One signed-in browser. ``until``: end of its idle time, in seconds of the clock of :class:`Sessions`.

    ``projects``: those that the user may choose. ``may_operate``: whether the operator API answers this user.
    ``ended``: set when the session has ended, so that its streams end, too.
    """

    login: Login
    until: float
    projects: tuple[Project, ...] = ()
    may_operate: bool = False
    streams: int = 0
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def is_complete(self) -> bool:
        """Whether a project has been chosen."""
        return self.login.project is not None


class Sessions:
    """All sessions of this process, by the hash of their key. ``idle_s``: seconds without a request until the end."""

    def __init__(
        self,
        idle_s: float,
        clock: Callable[[], float],
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._idle_s = idle_s
        self._clock = clock
        self._now = now
        self._by_hash: dict[str, Session] = {}

    def begin(self, login: Login, projects: tuple[Project, ...] = (), *, may_operate: bool = False) -> str:
        """Start a session, and return its key."""
        self.sweep()
        self._make_room(login.user_id)
        key = secrets.token_urlsafe(32)
        self._by_hash[_hash(key)] = Session(login, self._clock() + self._idle_s, projects, may_operate)
        return key

    def find(self, key: str | None, *, prolongs: bool = True) -> Session | None:
        """Return the session with a key; None if it has ended. ``prolongs``: whether its idle time starts again."""
        hashed = _hash(key or "")
        session = self._by_hash.get(hashed)
        if session is None:
            return None
        if not self._is_valid(session):
            self._end(hashed)
            return None
        if prolongs:
            session.until = self._clock() + self._idle_s
        return session

    def end(self, key: str | None) -> Session | None:
        """End the session with a key, and return it; None if there is none."""
        return self._end(_hash(key or ""))

    def end_all_of(self, user_id: str) -> list[Session]:
        """End all sessions of a user, and return them."""
        hashes = [hashed for hashed, session in self._by_hash.items() if session.login.user_id == user_id]
        return [session for session in map(self._end, hashes) if session is not None]

    def sweep(self) -> None:
        """End all sessions whose idle time or token has expired."""
        for hashed in [hashed for hashed, session in self._by_hash.items() if not self._is_valid(session)]:
            self._end(hashed)

    def __len__(self) -> int:
        return len(self._by_hash)

    def _is_valid(self, session: Session) -> bool:
        return session.until > self._clock() and session.login.expires_at > self._now()

    def _end(self, hashed: str) -> Session | None:
        session = self._by_hash.pop(hashed, None)
        if session is not None:
            session.ended.set()
        return session

    def _make_room(self, user_id: str) -> None:
        of_user = [hashed for hashed, session in self._by_hash.items() if session.login.user_id == user_id]
        for hashed in of_user[: max(0, len(of_user) - _MOST_OF_USER + 1)]:
            self._end(hashed)
        while len(self._by_hash) >= _MOST:
            self._end(next(iter(self._by_hash)))


def _hash(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()
