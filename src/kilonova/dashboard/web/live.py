# SPDX-License-Identifier: Apache-2.0
"""Live updates of the map of hosts: one task reads the operator API for all open pages, while there are any."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import falcon.asgi
import orjson

from kilonova.dashboard.upstream.cloud_api import OPERATOR, Cloud, Refused
from kilonova.dashboard.upstream.host_map import HostChanges, HostMap, shown_aggregates
from kilonova.dashboard.web.sessions import Session, Sessions
from kilonova.errors import Unavailable

LOG = logging.getLogger(__name__)
#: Events that wait for one page; a page that reads too slowly has to load the map again.
_MOST_WAITING = 20
MOST_STREAMS, MOST_STREAMS_OF_SESSION = 500, 12
#: Seconds without an event after which a stream sends a comment.
_HEARTBEAT_S = 15.0


#: Makes a page load the whole map again.
_STALE = falcon.asgi.SSEvent(event="stale", text="1")


class TooManyStreams(Exception):
    """The limit of open streams is reached."""


class HostFeed:
    """The present map of hosts, for operators only. It is read with the token of one of the operators who watch it."""

    def __init__(self, cloud: Cloud, sessions: Sessions, summary: Callable[[HostMap], str], every_s: float) -> None:
        self._cloud = cloud
        self._sessions = sessions
        self._summary = summary
        self._every_s = every_s
        self._queues: dict[asyncio.Queue[falcon.asgi.SSEvent], Session] = {}
        self._map: HostMap | None = None
        self._task: asyncio.Task[None] | None = None

    async def present(self, session: Session) -> HostMap:
        """Read the changes with the token of an operator, tell open pages, and return the map.

        Raises: Refused, Unavailable.
        """
        known = self._map
        answer = await self._usage(session, {} if known is None else {"after": known.version})
        is_next = known is not None and self._map is known and not answer["whole"]
        changes = known.apply(answer) if known is not None and is_next else None
        if known is not None and changes is not None:
            self._tell_changes(known, changes)
            return known
        self._map = found = HostMap(answer if answer["whole"] else await self._usage(session, {}))
        if known is not None:
            self._tell([_STALE])
        return found

    async def _usage(self, session: Session, query: Mapping[str, str]) -> Any:
        return await self._cloud.call(session.login, "GET", OPERATOR, "/hosts/usage", query=query)

    async def aggregates(self, session: Session) -> Mapping[str, str]:
        """Return host → the aggregate in which the map shows it. Raises: Refused, Unavailable."""
        return shown_aggregates(await self._cloud.call(session.login, "GET", "compute", "/os-aggregates"))

    async def events(self, session: Session) -> AsyncIterator[falcon.asgi.SSEvent | None]:
        """Yield events until the session ends. Raises: TooManyStreams."""
        if len(self._queues) >= MOST_STREAMS or session.streams >= MOST_STREAMS_OF_SESSION:
            raise TooManyStreams
        queue: asyncio.Queue[falcon.asgi.SSEvent] = asyncio.Queue()
        self._queues[queue] = session
        session.streams += 1
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._follow())
        try:
            while not session.ended.is_set():
                yield await _next_of(queue, session.ended)
        finally:
            session.streams -= 1
            del self._queues[queue]

    async def _follow(self) -> None:
        while self._queues:
            await asyncio.sleep(self._every_s)
            self._sessions.sweep()
            watcher = next((session for session in self._queues.values() if not session.ended.is_set()), None)
            if watcher is None:
                continue
            try:
                await self.present(watcher)
            except Refused as error:
                LOG.info("The hosts could not be read with the token of user %s: %s", watcher.login.user_id, error)
                watcher.ended.set()
            except Unavailable as error:
                LOG.debug("The hosts could not be read: %s", error)

    def _tell_changes(self, hosts: HostMap, changes: HostChanges) -> None:
        if changes.rows and self._queues:
            summary = " ".join(self._summary(hosts).split())
            told = orjson.dumps(changes.as_json()).decode()
            self._tell([falcon.asgi.SSEvent(text=summary), falcon.asgi.SSEvent(event="hosts", text=told)])

    def _tell(self, events: list[falcon.asgi.SSEvent]) -> None:
        for queue in self._queues:
            if queue.qsize() > _MOST_WAITING:
                while not queue.empty():
                    queue.get_nowait()
                queue.put_nowait(_STALE)
            else:
                for event in events:
                    queue.put_nowait(event)


async def _next_of(queue: asyncio.Queue[falcon.asgi.SSEvent], ended: asyncio.Event) -> falcon.asgi.SSEvent | None:
    """Return the next event; None when the session ends or after the heartbeat interval.

    For None, falcon sends a comment, which shows whether the client is still there.
    """
    waits = asyncio.create_task(queue.get()), asyncio.create_task(ended.wait())
    try:
        await asyncio.wait(waits, timeout=_HEARTBEAT_S, return_when=asyncio.FIRST_COMPLETED)
        return waits[0].result() if waits[0].done() else None
    finally:
        for each in waits:
            each.cancel()
