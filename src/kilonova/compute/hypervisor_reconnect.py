# SPDX-License-Identifier: Apache-2.0
"""Orders outlast a hypervisor that goes away for a moment, because it is upgraded or has crashed.

A driver may be told everything again: what is done already stays so. An order that a hypervisor left in the middle is
therefore carried out again when it is back. One that stays away for longer fails.
"""

import logging
import threading
from collections.abc import Callable
from time import monotonic
from typing import TypeVar

from kilonova.compute.virt.base import AgentStopsError
from kilonova.errors import HypervisorAway

LOG = logging.getLogger(__name__)
T = TypeVar("T")
#: How long an order waits, from when it first finds the hypervisor away, and how long between two tries.
ABSENCE_S = 30.0
_PAUSE_S = 0.5


class HypervisorReconnect:
    """Those of the hypervisor of one agent."""

    def __init__(self, longest_s: float = ABSENCE_S) -> None:
        self._longest_s = longest_s
        self._stopping = threading.Event()

    def bridge(self, work: Callable[[], T]) -> T:
        """Do something, again if the hypervisor went away. Raises: HypervisorAway, AgentStopsError, and as ``work``."""
        until = None
        while True:
            try:
                return work()
            except HypervisorAway:
                until = monotonic() + self._longest_s if until is None else until
                if monotonic() + _PAUSE_S > until:
                    raise
            LOG.info("The hypervisor is away: what was ordered is tried again")
            if self._stopping.wait(_PAUSE_S):
                raise AgentStopsError

    def stop(self) -> None:
        """Leave what waits as it is."""
        self._stopping.set()
