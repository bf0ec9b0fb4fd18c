# SPDX-License-Identifier: Apache-2.0
"""Tell which servers there were in each audit period, once it is over (``instance_usage_audit``).

Any number of control processes do that together: each takes the next servers under a row of the database.
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
#: As in Nova.
_EVERY_S = 60.0
_TOGETHER = 100
_WAIT_S = 0.2


class UsageAudit(PeriodicPart):
    """``may_act``: whether this process counts as alive. ``together``: how many servers one transaction takes.

    It stops after the transaction under way; the next process goes on from there.
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
            description="Notify which servers existed in an audit period that is over.",
            complaint="Nobody was told which servers exist",
            from_start=True,
        )
        super().__init__("usage audit", [self._thread])

    def look(self) -> int:
        """Tell of the servers of the last period that is over, as far as nobody has; return how many those were."""
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
