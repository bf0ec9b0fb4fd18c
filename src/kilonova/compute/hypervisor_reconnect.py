# SPDX-License-Identifier: Apache-2.0
"""Retry of orders while the hypervisor is briefly unreachable, for example because it restarts.

The driver's calls are idempotent, so an order interrupted halfway is simply repeated. If the hypervisor is still
unreachable after the timeout, the order fails.
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
#: An order is retried for ABSENCE_S seconds after the first failure to reach the hypervisor, every _PAUSE_S seconds.
ABSENCE_S = 30.0
_PAUSE_S = 0.5


class HypervisorReconnect:
    """Repeats driver calls while the hypervisor of one agent is unreachable."""

    def __init__(self, longest_s: float = ABSENCE_S) -> None:
        self._longest_s = longest_s
        self._stopping = threading.Event()

    def bridge(self, work: Callable[[], T]) -> T:
        """Call ``work`` and return its result; retry if the hypervisor is unreachable.

        Raises: HypervisorAway after the timeout, AgentStopsError, and any error of ``work``.
        """
        until = None
        while True:
            try:
                return work()
            except HypervisorAway:
                until = monotonic() + self._longest_s if until is None else until
                if monotonic() + _PAUSE_S > until:
                    raise
            LOG.info("The hypervisor is unreachable; retrying the order")
            if self._stopping.wait(_PAUSE_S):
                raise AgentStopsError

    def stop(self) -> None:
        """End all retries, so that the threads that wait for the hypervisor end."""
        self._stopping.set()
