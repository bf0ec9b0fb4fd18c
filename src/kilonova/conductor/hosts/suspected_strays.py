# SPDX-License-Identifier: Apache-2.0
"""Checks of guests that may be stray: a late reply mentions the guest, or an ended workflow may have left it."""

import threading
from collections.abc import Callable

from kilonova.conductor.hosts.guest_reports import GuestReports
from kilonova.db import guest_placement
from kilonova.db.database import Database
from kilonova.messaging.messages import StepReply
from kilonova.model.instance import PowerState


class SuspectedStrays:
    """Queries hosts for suspected stray guests.

    ``may_act``: returns whether this process holds its lease; if not, the queries are postponed.
    """

    def __init__(self, database: Database, reports: GuestReports, may_act: Callable[[], bool]) -> None:
        self._database = database
        self._reports = reports
        self._may_act = may_act
        self._lock = threading.Lock()
        self._waiting: list[tuple[str, str]] = []

    def look_at_reply(self, reply: StepReply) -> None:
        """Check the guest of a reply that no workflow waits for."""
        if reply.power_state is not PowerState.NOSTATE:
            self.look_at(reply.instance_uuid, reply.host)

    def look_at(self, uuid: str, host: str | None) -> None:
        """Query a host for a guest, unless the guest's server is recorded on that host.

        The answer counts as a guest report.
        """
        if host is None or not uuid:
            return
        with self._lock:
            if not self._may_act():
                # Postpone the query, do not drop it: the host may have sent its report just before this call.
                self._waiting.append((uuid, host))
                return
        with self._database.read() as connection:
            belongs = guest_placement.belongs(connection, host, uuid)
        if not belongs:
            self._reports.ask(host, [uuid])

    def look_at_waiting(self) -> None:
        """Send the queries that were postponed while this process did not hold its lease."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
        for uuid, host in waiting:
            self.look_at(uuid, host)
