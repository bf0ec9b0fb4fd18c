# SPDX-License-Identifier: Apache-2.0
"""Notice processes that say nothing any more, and count them, with all their hosts, as down."""

import logging
from datetime import timedelta

from kilonova.db import host_agents
from kilonova.db.database import Database
from kilonova.db.host_agents import Silent
from kilonova.db.transaction import Transaction

LOG = logging.getLogger(__name__)


class Silence:
    """Every control process looks; whoever is first notes it.

    ``down_time``: for how long a process may say nothing. ``listener``: the process that looks, which is alive, even
    where it was stopped for a while and has not said so yet.
    """

    def __init__(self, database: Database, down_time: timedelta, *, listener: str) -> None:
        self._database = database
        self._down_time = down_time
        self._listener = listener

    @property
    def look_every_s(self) -> float:
        """How often to look, so that a process counts as down soon after its time is over."""
        return min(5.0, max(0.5, self._down_time.total_seconds() / 10))

    def look(self) -> None:
        """Note which processes have gone down since the last time. Reads only, as long as there are none."""
        with self._database.read() as connection:
            found = host_agents.silent(connection, self._database.clock.now(), self._down_time, besides=self._listener)
        if found:
            for each in self._database.write(self._mark):
                self._tell(each)

    def _mark(self, tx: Transaction) -> tuple[Silent, ...]:
        return host_agents.mark_silent(tx, self._down_time, besides=self._listener)

    def _tell(self, silent: Silent) -> None:
        name = f"Agent process {silent.agent}" if silent.agent else f"Control process {silent.process}"
        where = f" on {silent.machine}" if silent.machine else ""
        level = logging.WARNING if silent.hosts else logging.INFO
        LOG.log(
            level, "%s%s was last heard of at %s; its %d hosts are down", name, where, silent.last_seen_at, silent.hosts
        )
