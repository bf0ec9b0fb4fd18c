# SPDX-License-Identifier: Apache-2.0
"""Guests that a late reply tells of: one on a host where its server is not, or not any more, is destroyed."""

import logging
import threading
from collections.abc import Callable

from kilonova.db import instances
from kilonova.db.database import Database
from kilonova.errors import Unavailable
from kilonova.messaging.bus import ConductorBus
from kilonova.messaging.messages import DestroyGuest, StepId, StepReply
from kilonova.model.instance import PowerState

LOG = logging.getLogger(__name__)


class StrayGuests:
    """``may_act``: whether this process may act for its hosts; what comes when it may not is looked at later."""

    def __init__(self, database: Database, bus: ConductorBus, may_act: Callable[[], bool]) -> None:
        self._database = database
        self._bus = bus
        self._may_act = may_act
        self._lock = threading.Lock()
        self._late: list[tuple[str, str]] = []

    def destroy_stray(self, reply: StepReply) -> None:
        """Have a guest destroyed that runs on a host where its server is not, and which no open migration names."""
        if reply.power_state is PowerState.RUNNING:
            self.look_at(reply.instance_uuid, reply.host)

    def look_at(self, uuid: str, host: str | None) -> None:
        """Have the guest on a host destroyed if its server is recorded as elsewhere, and no open migration names it."""
        if host is None or not uuid:
            return
        with self._lock:
            if not self._may_act():
                self._late.append((uuid, host))  # the guests may have been reported just before this one ran
                return
        with self._database.read() as connection:
            belongs = host in instances.hosts_of(connection, [uuid]).get(uuid, ())
        if not belongs:
            LOG.warning("Guest %s does not belong on host %s; it is destroyed if it is there", uuid, host)
            try:
                self._bus.cast(host, DestroyGuest(StepId("", "stray", 0), uuid))
            except Unavailable as error:
                LOG.warning("%s It is destroyed when the host comes back.", error.message)

    def look_at_late_ones(self) -> None:
        """Look at the guests that were told of while this process might not act."""
        with self._lock:
            late, self._late = self._late, []
        for uuid, host in late:
            self.look_at(uuid, host)
