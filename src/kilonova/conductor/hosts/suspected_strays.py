# SPDX-License-Identifier: Apache-2.0
"""Guests that late replies tell of, or that workflows may have left: the hosts are asked which of them they have."""

import threading
from collections.abc import Callable

from kilonova.conductor.hosts.guest_reports import GuestReports
from kilonova.db import guest_placement
from kilonova.db.database import Database
from kilonova.messaging.messages import StepReply
from kilonova.model.instance import PowerState


class SuspectedStrays:
    """``may_act``: whether this process may act for its hosts; what comes when it may not is looked at later."""

    def __init__(self, database: Database, reports: GuestReports, may_act: Callable[[], bool]) -> None:
        self._database = database
        self._reports = reports
        self._may_act = may_act
        self._lock = threading.Lock()
        self._waiting: list[tuple[str, str]] = []

    def look_at_reply(self, reply: StepReply) -> None:
        """Look at the guest of which a reply tells that nobody waits for."""
        if reply.power_state is not PowerState.NOSTATE:
            self.look_at(reply.instance_uuid, reply.host)

    def look_at(self, uuid: str, host: str | None) -> None:
        """Ask a host for the guest of an instance that is not recorded there, so that it is removed if it has to."""
        if host is None or not uuid:
            return
        with self._lock:
            if not self._may_act():
                self._waiting.append((uuid, host))  # the guests may have been reported just before this one ran
                return
        with self._database.read() as connection:
            belongs = guest_placement.belongs(connection, host, uuid)
        if not belongs:
            self._reports.ask(host, [uuid])

    def look_at_waiting(self) -> None:
        """Look at the guests that were told of while this process might not act."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
        for uuid, host in waiting:
            self.look_at(uuid, host)
