# SPDX-License-Identifier: Apache-2.0
"""A read replica of the database that serves lists, and the maximum age of its data."""

import logging
import math
from dataclasses import field
from datetime import datetime

from kilonova.db import host_agents
from kilonova.db.database import Database
from kilonova.errors import Unavailable
from kilonova.logs.rate_limited_log import RateLimitedLog
from kilonova.records import dataclass

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Replica:
    """A read replica that serves lists. ``max_age_s``: if its data may be older, it is not read."""

    database: Database
    max_age_s: float
    _complaints: RateLimitedLog = field(default_factory=lambda: RateLimitedLog(LOG), repr=False)

    def age_s(self, now: datetime) -> float | None:
        """Return the maximum age of the replica's data; None if the replica is too old or does not answer.

        The age is that of the newest heartbeat that has reached the replica. ``now``: time of the database's clock.
        """
        try:
            with self.database.read() as connection:
                newest = host_agents.newest_heartbeat(connection)
        except Unavailable as error:
            self._complaints.complain("away", f"The read replica is not read: {error.message}")
            return None
        age_s = math.inf if newest is None else max(0.0, (now - newest).total_seconds())
        if age_s > self.max_age_s:
            self._complaints.complain("old", f"The read replica is not read: its data may be {age_s:g} seconds old")
            return None
        return age_s
