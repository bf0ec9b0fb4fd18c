# SPDX-License-Identifier: Apache-2.0
"""DEBUG log of a scheduling decision: each rule's verdict on each host, the remaining hosts, and the chosen host.

::

    ComputeFilter: (node1, node1) ram:31895 disk:98 io_ops:0 instances:0 passes
    ComputeFilter: (node2, node2) ram:31895 disk:98 io_ops:0 instances:0 fails: compute service disabled or down
    ComputeFilter returned 1 of 2 hosts: (node1, node1)
    Selected for server 1 of 1: (node1, node1) ram:31895 disk:98 io_ops:0 instances:0, weight 1.9 (…)
"""

import logging

import numpy as np

from kilonova.scheduler.decision import RankedHost, RuleCount
from kilonova.scheduler.host_table import BoolArray, HostTable
from kilonova.scheduler.nova_compat.host_state import HostState

LOG = logging.getLogger(__name__)
#: Maximum number of hosts listed per rule (rejected hosts first), and maximum number of names in a line of hosts.
MAX_HOSTS = 100


class DecisionTrace:
    """Trace of one request through the rules. Implements :data:`~kilonova.scheduler.engine.engine.Trace`.

    Decisions are made under a lock, and writing log files is slow. So lines are collected until :meth:`log` is called.
    """

    def __init__(self, hosts: HostTable) -> None:
        self._hosts = hosts
        self._left = hosts.all_hosts
        self._is_first = True
        self._lines = [f"Starting with {len(hosts)} hosts"]

    @classmethod
    def if_wanted(cls, hosts: HostTable) -> "DecisionTrace | None":
        """Return a trace, or None if the log level is above DEBUG."""
        return cls(hosts) if LOG.isEnabledFor(logging.DEBUG) else None

    def __call__(self, step: RuleCount, alive: BoolArray) -> None:
        before, self._left = self._left, alive.copy()
        lost, left = np.flatnonzero(before & ~alive), np.flatnonzero(alive)
        if not self._is_first and not len(lost):
            return  # for later servers of a request, a rule is only logged if it rejects hosts that passed before
        shown = [(int(row), f"fails: {step.reason}") for row in lost[:MAX_HOSTS]]
        if self._is_first:
            shown += [(int(row), "passes") for row in left[: MAX_HOSTS - len(shown)]]
        self._lines += [f"{step.rule}: {HostState(self._hosts, row)} {verdict}" for row, verdict in shown]
        if self._is_first and (more := len(lost) + len(left) - len(shown)):
            self._lines.append(f"{step.rule}: {more} hosts more")
        names = ", ".join(f"({self._hosts.hosts[row]}, {self._hosts.nodes[row]})" for row in left[:MAX_HOSTS])
        rest = ", …" if len(left) > MAX_HOSTS else ""
        self._lines.append(f"{step.rule} returned {len(left)} of {len(lost) + len(left)} hosts: {names}{rest}")

    def selected(self, index: int, count: int, best: RankedHost) -> None:
        """Add a line for the host that was chosen for a server. Call this method before the host's usage changes."""
        self._is_first = False
        parts = ", ".join(f"{weigher} {share:.4g}" for weigher, share in best.weights.items() if share)
        weight = f"weight {best.score:.4g}" + (f" ({parts})" if parts else "")
        host = HostState(self._hosts, best.row)
        self._lines.append(f"Selected for server {index + 1} of {count}: {host}, {weight}")

    def log(self) -> None:
        """Write the collected lines to the log."""
        for line in self._lines:
            LOG.debug("%s", line)
