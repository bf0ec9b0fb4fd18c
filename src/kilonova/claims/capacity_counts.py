# SPDX-License-Identifier: Apache-2.0
"""Periodic counts of free resources for metrics, by one control process at a time: capacity, stranded shares, N+1.

Each count is a task with a lease and a time budget of its own, and its last result is stored with its time.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any

from sqlalchemy.engine import Connection

from kilonova import deadline
from kilonova.claims.cloud_snapshot import cloud_snapshot
from kilonova.db import flavors, shared_tasks
from kilonova.db.database import Database
from kilonova.db.shared_tasks import Finished
from kilonova.deadline import Deadline, nobody_left
from kilonova.errors import DeadlineExceeded, InvalidRequest
from kilonova.mirror.mirror import Mirror
from kilonova.model.flavor import Flavor
from kilonova.model.request_spec import RequestSpec
from kilonova.periodic import PeriodicPart, PeriodicThread
from kilonova.planning.capacity import capacity
from kilonova.planning.losses import Losses
from kilonova.planning.stranded import stranded
from kilonova.scheduler.devices.choice import needs_of
from kilonova.scheduler.devices.pci_request import Alias
from kilonova.scheduler.engine.engine import Engine
from kilonova.scheduler.host_table import HostTable
from kilonova.scheduler.resources import with_resources

CAPACITY, STRANDED, N_PLUS_ONE = "capacity", "stranded resources", "n-plus-one"
#: Time beyond the budget after which another process may repeat a count: a step between two checks is not interrupted.
_GRACE_S = 300.0
#: Longest and shortest interval in seconds at which a process looks whether a count is due.
_EVERY_S, _OFTENEST_S = 60.0, 1.0
#: Limit of the number of flavors, the first ones by id.
MOST_FLAVORS = 100


class CapacityCounts(PeriodicPart):
    """Task that counts the cloud's free resources every ``interval_s`` seconds; 0 disables the task.

    ``budget_s``: time limit of each count in seconds; what is incomplete by then is left out of its result.
    ``owner``: id of this control process. ``may_act``: returns whether its lease is valid.
    """

    def __init__(
        self,
        database: Database,
        mirror: Mirror,
        engine: Engine,
        aliases: Mapping[str, Alias],
        owner: str,
        interval_s: float,
        budget_s: float,
        may_act: Callable[[], bool],
    ) -> None:
        self._database = database
        self._mirror = mirror
        self._engine = engine
        self._aliases = aliases
        self._owner = owner
        self._interval = timedelta(seconds=interval_s)
        self._budget_s = budget_s
        self._may_act = may_act
        thread = PeriodicThread(
            "capacity counts",
            self.look,
            min(_EVERY_S, max(_OFTENEST_S, interval_s / 10)),
            description="Count, for metrics, how many servers fit, what is stranded, and which hosts can be lost.",
            complaint="The free resources were not counted",
        )
        super().__init__("capacity counts", [thread] if interval_s else [])

    def look(self) -> tuple[str, ...]:
        """Make the counts that are due and that no other process makes; return their names."""
        counts: Mapping[str, Callable[[], Any]] = {
            CAPACITY: self._capacity,
            STRANDED: self._stranded,
            N_PLUS_ONE: self._losses,
        }
        return tuple(name for name, count in counts.items() if self._may_act() and self._counted(name, count))

    def _counted(self, name: str, count: Callable[[], Any]) -> bool:
        lease = timedelta(seconds=self._budget_s + _GRACE_S)
        if not self._database.write(
            lambda tx: shared_tasks.begin(tx, name, self._owner, every=self._interval, lease=lease)
        ):
            return False
        with deadline.running(Deadline(time.monotonic() + self._budget_s, nobody_left)):
            result = count()
        return self._database.write(lambda tx: shared_tasks.finish(tx, name, self._owner, result))

    def _hosts(self) -> HostTable:
        self._mirror.catch_up()
        return self._mirror.hosts_apart()

    def _flavors(self) -> tuple[Flavor, ...]:
        with self._database.read() as connection:
            return tuple(each for each in flavors.list_visible(connection) if not each.disabled)[:MOST_FLAVORS]

    def _capacity(self) -> Any:
        """Return flavor name → number of servers; flavors without a limit, or beyond the budget, are absent."""
        fits: dict[str, int] = {}
        with suppress(DeadlineExceeded):
            hosts = self._hosts()
            for flavor in filter(self._is_possible, self._flavors()):
                deadline.check()
                spec = RequestSpec(flavor)
                found = capacity(hosts, spec, self._engine, aliases=self._aliases, check=deadline.check)
                if found.fits is not None:
                    fits[flavor.name] = found.fits
        return fits

    def _stranded(self) -> Any:
        """Return resource class → stranded part of its capacity; nothing if the budget does not suffice."""
        try:
            requests = [RequestSpec(flavor) for flavor in self._flavors() if self._is_possible(flavor)]
            found = stranded(self._hosts(), requests, self._engine, aliases=self._aliases, check=deadline.check)
        except DeadlineExceeded:
            return {}
        return {each.resource_class: each.share for each in found}

    def _is_possible(self, flavor: Flavor) -> bool:
        try:
            needs_of(with_resources(RequestSpec(flavor)), self._aliases)
        except InvalidRequest:
            return False
        return True

    def _losses(self) -> Any:
        """Return the number of hosts whose servers do not fit elsewhere, and whether all hosts were tried."""
        failing = 0
        try:
            cloud = cloud_snapshot(self._database, self._mirror, self._engine, aliases=self._aliases).cloud
            losses = Losses(cloud, deadline.check)
            for host in cloud.hosts.rows_of_host():
                failing += bool(losses.of_host(host).left_over)
        except DeadlineExceeded:
            return {"failing": failing, "complete": False}
        return {"failing": failing, "complete": True}


def last_counts(connection: Connection) -> dict[str, Finished]:
    """Return name → last finished run of each count; counts that never ran are absent."""
    found = {name: shared_tasks.last(connection, name) for name in (CAPACITY, STRANDED, N_PLUS_ONE)}
    return {name: last for name, last in found.items() if last is not None}
