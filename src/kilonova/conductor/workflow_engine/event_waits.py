# SPDX-License-Identifier: Apache-2.0
"""Workflows that wait for events about their servers without blocking a thread.

The events are stored in the database by the control process that receives them. That process wakes its own workflows at
once (:meth:`EventWaits.of`). Other processes find the events by a query about once a second (:meth:`EventWaits.due`),
which also finds an event that was stored between the last check of a step and the start of its wait.
"""

import threading
from collections.abc import Collection
from datetime import datetime

from kilonova.conductor.workflow_engine.run import HasHost, Run
from kilonova.db import network_events
from kilonova.db.database import Database
from kilonova.records import dataclass


@dataclass(frozen=True, slots=True)
class _Wait:
    instance_uuid: str
    until: datetime


class EventWaits:
    """The workflows of a process that wait for events, by workflow uuid. Thread-safe.

    A workflow that is woken no longer waits; its step starts the next wait if it needs more events.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._waits: dict[str, _Wait] = {}

    def add(self, run: Run[HasHost], until: datetime) -> None:
        """Make a workflow wait until an event about its server is stored, or until a time of the database's clock."""
        with self._lock:
            self._waits[run.row.uuid] = _Wait(run.instance_uuid, until)

    def of(self, instance_uuids: Collection[str]) -> tuple[str, ...]:
        """Return the waiting workflows of these servers, and end their waits."""
        with self._lock:
            return self._end([uuid for uuid, wait in self._waits.items() if wait.instance_uuid in instance_uuids])

    def due(self) -> tuple[str, ...]:
        """Return the workflows whose awaited event is stored or whose time limit is over, and end their waits."""
        with self._lock:
            servers = {wait.instance_uuid for wait in self._waits.values()}
        if not servers:
            return ()
        with self._database.read() as connection:
            heard = network_events.servers_with_events(connection, servers)
        now = self._database.clock.now()
        with self._lock:
            waits = self._waits.items()
            return self._end([uuid for uuid, wait in waits if wait.instance_uuid in heard or wait.until <= now])

    def _end(self, uuids: Collection[str]) -> tuple[str, ...]:
        for uuid in uuids:
            del self._waits[uuid]
        return tuple(uuids)

    def leave(self, uuid: str) -> None:
        """End the wait of a workflow, if it waits."""
        with self._lock:
            self._waits.pop(uuid, None)

    def clear(self) -> None:
        with self._lock:
            self._waits.clear()

    def __len__(self) -> int:
        with self._lock:
            return len(self._waits)
