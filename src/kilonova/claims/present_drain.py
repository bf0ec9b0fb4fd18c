# SPDX-License-Identifier: Apache-2.0
"""Drains of the present cloud, with only as many servers loaded as the plan needs."""

from collections.abc import Callable

from kilonova.claims.cloud_snapshot import CloudSnapshot
from kilonova.planning.drain import DrainRequest, drain
from kilonova.planning.plan import Plan


def drained(
    snapshot: Callable[[frozenset[str] | None], CloudSnapshot],
    asked: DrainRequest,
    check: Callable[[], None] = lambda: None,
) -> tuple[CloudSnapshot, Plan]:
    """Return a plan that empties hosts, with the cloud on which it was computed.

    ``snapshot``: returns the present cloud with the servers of these hosts; None: all servers. Servers of other hosts
    are loaded only if some of them may have to make room. ``check``: as of :func:`kilonova.planning.drain.drain`.
    Raises: RuleFailed; what ``snapshot`` and ``check`` raise.
    """
    taken = snapshot(asked.hosts)
    plan = drain(taken.cloud, asked, check)
    if any(stay.request is not None for stay in plan.stays):
        taken = snapshot(None)
        plan = drain(taken.cloud, asked, check)
    return taken, plan
