# SPDX-License-Identifier: Apache-2.0
"""Periodic task that counts the stray ports of the whole cloud, in one control process at a time."""

import logging
from collections.abc import Callable
from datetime import timedelta

from kilonova.conductor.operations.stray_ports import StrayPorts
from kilonova.periodic import PeriodicPart, PeriodicThread

LOG = logging.getLogger(__name__)
#: Longest and shortest interval in seconds at which a process looks whether a count is due.
_EVERY_S, _OFTENEST_S = 60.0, 1.0
#: Pause in seconds between two batches, so that a count is a small part of the load of the network service.
_PAUSE_S = 0.5


class StrayPortCounts(PeriodicPart):
    """Task that counts the stray ports every ``interval_s`` seconds; 0 disables the task.

    ``owner``: id of this control process. ``may_act``: returns whether its lease is valid.
    """

    def __init__(
        self,
        stray_ports: StrayPorts,
        owner: str,
        interval_s: float,
        may_act: Callable[[], bool],
        *,
        pause_s: float = _PAUSE_S,
    ) -> None:
        self._stray_ports = stray_ports
        self._owner = owner
        self._interval = timedelta(seconds=interval_s)
        self._may_act = may_act
        self._pause_s = pause_s
        self._thread = PeriodicThread(
            "stray ports",
            self.look,
            min(_EVERY_S, max(_OFTENEST_S, interval_s / 10)),
            description="Count the ports without a server, and the interfaces of servers without a port.",
            complaint="Stray ports were not counted",
        )
        super().__init__("stray ports", [self._thread] if interval_s else [])

    def look(self) -> bool:
        """Count the stray ports if this is due and no other process does it; return whether they were counted."""
        if not self._may_act() or not self._stray_ports.count(self._owner, self._interval, self._rest):
            return False
        numbers = self._stray_ports.numbers()
        if numbers is not None and (total := sum(numbers.by_kind.values())):
            LOG.warning("There are %d stray ports; kilonova audit ports lists them", total)
        return True

    def _rest(self) -> bool:
        return self._thread.rest(self._pause_s) or not self._may_act()
