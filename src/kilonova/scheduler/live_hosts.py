# SPDX-License-Identifier: Apache-2.0
"""The present hosts as live columns: a host table that changes with the cloud, and the log of its changed rows."""

from kilonova.records import dataclass, replace
from kilonova.scheduler.host_table import HostTable
from kilonova.scheduler.row_changes import LastSeen, RowChanges


@dataclass(frozen=True, slots=True, eq=False)
class LiveHosts:
    """The host table of the present, without copies. Read it only while the lock of its owner is held.

    ``hosts``: its columns of usage, instances, devices and metrics change with the cloud. Any change of other values
    makes a new LiveHosts, with the same ``changes`` if only services and aggregates differ. ``taken_at`` and
    ``last_seen`` of this table are not of the present; :meth:`at` sets them.
    ``changes``: the log of the rows that change. ``last_seen``: returns the last heartbeats as seen at a time.
    """

    hosts: HostTable
    changes: RowChanges
    last_seen: LastSeen

    def at(self, now: float) -> HostTable:
        """Return the live table as seen at a time. Units: epoch seconds."""
        return replace(self.hosts, taken_at=now, last_seen=self.last_seen(now))
