# SPDX-License-Identifier: Apache-2.0
"""Stray ports: their list, their numbers, and their removal by operators."""

import logging
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from kilonova.conductor.operations.stray_port_search import BEGINNING, Place, StrayPortSearch
from kilonova.conductor.workflow_engine.services import Services
from kilonova.db import shared_tasks
from kilonova.errors import Conflict, NotFound
from kilonova.model.requester import Requester
from kilonova.model.stray_port import StrayPort, StrayPortKind
from kilonova.network import port_changes
from kilonova.network.client import NetworkClient

LOG = logging.getLogger(__name__)
#: Number of ports and servers after which a page of the list ends, even if it has few stray ports.
_LOOKED_AT = 2500
_TASK = "stray ports"
#: Time without a sign of life after which another process may count from the beginning.
_LEASE = timedelta(minutes=5)


class Page(NamedTuple):
    """Some stray ports, and the marker of the next page; None after the last page."""

    strays: tuple[StrayPort, ...]
    following: str | None


class Numbers(NamedTuple):
    """The numbers of stray ports of each kind in the whole cloud, and when the last port was looked at."""

    counted_at: datetime
    by_kind: Mapping[StrayPortKind, int]


class StrayPorts:
    """Operations on ports without a server, and on interfaces without a port."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._database = services.database

    def page(self, marker: str | None, limit: int) -> Page:
        """Return at most ``limit`` stray ports that follow ``marker``; there may be fewer, or none, on any page.

        Raises: InvalidRequest if the marker is none; NotFound if its port is gone; Conflict without a network service;
        Unavailable; ClientGone, DeadlineExceeded.
        """
        search, place = self._search(), BEGINNING if marker is None else Place.read(marker)
        found: list[StrayPort] = []
        looked_at = 0
        if limit == 0:
            return Page((), None)
        while True:
            batch = search.batch(place)
            room = limit - len(found)
            found += [stray for stray, _ in batch.found[:room]]
            if len(batch.found) > room:
                return Page(tuple(found), str(batch.found[room - 1][1] if room else place))
            if batch.following is None:
                return Page(tuple(found), None)
            place, looked_at = batch.following, looked_at + batch.looked_at
            if len(found) == limit or looked_at >= _LOOKED_AT:
                return Page(tuple(found), str(place))

    def count(self, owner: str, every: timedelta, rest: Callable[[], bool]) -> bool:
        """Count the stray ports of the whole cloud, if this is due and no other process does it; return whether it did.

        ``rest``: called between two batches; returns True to stop. A process that stops, or whose count fails, leaves
        the task to another process, which starts again after the lease.
        Raises: Conflict without a network service; Unavailable.
        """
        search = self._search()
        if not self._database.write(lambda tx: shared_tasks.begin(tx, _TASK, owner, every=every, lease=_LEASE)):
            return False
        kinds, place = Counter[StrayPortKind](), BEGINNING
        while True:
            batch = search.batch(place)
            kinds.update(stray.kind for stray, _ in batch.found)
            if batch.following is None:
                break
            place = batch.following
            if rest() or not self._database.write(lambda tx: shared_tasks.keep(tx, _TASK, owner)):
                return False
        result = {kind.value: kinds[kind] for kind in StrayPortKind}
        return self._database.write(lambda tx: shared_tasks.finish(tx, _TASK, owner, result))

    def numbers(self) -> Numbers | None:
        """Return the numbers of the last count; None before the first one, and without a network service."""
        if self._services.network_client is None:
            return None
        with self._database.read() as connection:
            last = shared_tasks.last(connection, _TASK)
        return None if last is None else Numbers(last.at, {kind: last.result.get(kind, 0) for kind in StrayPortKind})

    def remove(self, port_id: str, requester: Requester) -> None:
        """Delete a stray port that Kilonova created for a server which was deleted.

        Raises: NotFound; Conflict if the port may be needed, or another program created it; Unavailable.
        """
        stray = self._search().find(port_id)
        if stray is None:
            raise NotFound(f"Port {port_id} is not stray.")
        if stray.kind is not StrayPortKind.DELETED:
            raise Conflict(f"The server {stray.instance_uuid} of port {port_id} is not known as deleted.")
        if not stray.created:
            raise Conflict(
                f"Port {port_id} does not have the description of a port that Kilonova has created for a server, so "
                "Kilonova does not delete it: use the network service."
            )
        port_changes.delete(self._client, port_id)
        LOG.warning("User %s deleted stray port %s of server %s", requester.user_id, port_id, stray.instance_uuid)

    def _search(self) -> StrayPortSearch:
        return StrayPortSearch(self._client, self._database)

    @property
    def _client(self) -> NetworkClient:
        if self._services.network_client is None:
            raise Conflict("No network service is configured.")
        return self._services.network_client
