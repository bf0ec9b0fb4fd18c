# SPDX-License-Identifier: Apache-2.0
"""The smallest changes with which servers that a plan leaves behind could be moved, too."""

from kilonova.planning.cloud import Cloud
from kilonova.planning.plan import Plan
from kilonova.scheduler.explanations.nearest_miss import NearestMiss, nearest_misses

#: Number of servers for which near misses are searched.
MOST_SEARCHED = 5


def near_misses(cloud: Cloud, plan: Plan, most: int = MOST_SEARCHED) -> dict[str, NearestMiss]:
    """Return server → the smallest change, for the first ``most`` stays that the scheduler refuses.

    The moves of the plan count as done. ``cloud``: the state before the plan; it does not change. Raises: RuleFailed.
    """
    found: dict[str, NearestMiss] = {}
    refused = [(stay.server, stay.request) for stay in plan.stays if stay.request is not None][:most]
    if not refused:
        return found
    with cloud.branch():
        for move in plan.moves:
            cloud.move(move.server, move.row)
        for server, request in refused:
            misses = nearest_misses(cloud.hosts, request, cloud.engine, limit=1)
            if misses:
                found[server.uuid] = misses[0]
    return found
