# SPDX-License-Identifier: Apache-2.0
"""Background purge of deleted servers, enabled by ``[operator] purge_deleted_after_days``."""

import logging
from datetime import timedelta

from kilonova.db import purge
from kilonova.db.database import Database
from kilonova.periodic import PeriodicPart, PeriodicThread

LOG = logging.getLogger(__name__)
_EVERY_S = 3600.0


class Purger(PeriodicPart):
    """Hourly task that purges the servers that were deleted at least ``days`` days ago. 0 disables the task."""

    def __init__(self, database: Database, days: int, *, every_s: float = _EVERY_S) -> None:
        self._database = database
        self._kept = timedelta(days=days)
        self._thread = PeriodicThread(
            "purge",
            self._purge,
            every_s,
            description="Purge from the database the servers that were deleted long ago.",
            complaint="Deleted servers were not purged",
        )
        super().__init__("purge", [self._thread] if days else [])

    def _purge(self) -> None:
        removed = purge.purge(self._database, self._database.clock.now() - self._kept, rest=self._thread.rest)
        if removed:
            LOG.info("Purged %d deleted servers", removed.get("instances", 0))
