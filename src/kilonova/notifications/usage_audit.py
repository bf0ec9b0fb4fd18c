# SPDX-License-Identifier: Apache-2.0
"""Usage audit (``instance_usage_audit``): publishes the servers of each completed audit period.

Any number of control processes share the work: a row in the database says which servers are already published, and each
process claims the next batch.
"""

import logging
from collections.abc import Callable

from kilonova.db import usage_audits
from kilonova.db.database import Database
from kilonova.model.audit_periods import AuditPeriods, Period
from kilonova.notifications.events import ServerExists
from kilonova.notifications.publisher import Publisher
from kilonova.periodic import PeriodicPart, PeriodicThread

LOG = logging.getLogger(__name__)
#: Seconds between runs, as in Nova.
_EVERY_S = 60.0
_TOGETHER = 100
_WAIT_S = 0.2


class UsageAudit(PeriodicPart):
    """Periodic task that publishes ``instance.exists``.

    ``may_act``: returns whether this process's lease is valid. ``together``: number of servers per transaction.
    On shutdown the task stops after the running transaction; another control process publishes the remaining servers.
    """

    def __init__(
        self,
        database: Database,
        announcer: Publisher,
        periods: AuditPeriods,
        may_act: Callable[[], bool],
        *,
        together: int = _TOGETHER,
    ) -> None:
        self._database = database
        self._announcer = announcer
        self._periods = periods
        self._may_act = may_act
        self._together = together
        self._last: Period | None = None
        self._thread = PeriodicThread(
            "usage audit",
            self.look,
            _EVERY_S,
            description="Publish which servers existed in each completed audit period.",
            complaint="Usage audit failed",
            from_start=True,
        )
        super().__init__("usage audit", [self._thread])

    def look(self) -> int:
        """Publish the servers of the last completed period that are not yet published; return the number published."""
        period = self._periods.last_completed(self._database.clock.now())
        if period == self._last or not self._may_act():
            return 0
        count = 0
        if self._database.write(lambda tx: usage_audits.begin(tx, period)):
            while servers := self._database.write(lambda tx: usage_audits.take(tx, period, self._together)):
                for server in servers:
                    self._announcer.tell(ServerExists(server, period))
                count += len(servers)
                while self._announcer.is_busy:
                    if self._thread.rest(_WAIT_S):
                        return count
                if self._thread.rest(0):
                    return count
            LOG.info("Usage audit: %d servers existed from %s to %s", count, period.begin, period.end)
        self._last = period
        return count
