# SPDX-License-Identifier: Apache-2.0
"""JSON views of plans."""

from collections.abc import Mapping
from typing import Any

from kilonova.api.operator.views import hindrances_view, nearest_view
from kilonova.model.server_migration import MoveKind
from kilonova.planning.cloud import Cloud
from kilonova.planning.plan import Plan, PlannedMove, Stay
from kilonova.scheduler.explanations.nearest_miss import NearestMiss

#: What plans do not know.
NOT_COUNTED = (
    "operations that begin after the change number of the plan",
    "requirements of ports that were attached after the creation of their server",
    "storage that hosts share: local disks count as copied",
)


def plan_view(cloud: Cloud, plan: Plan, misses: Mapping[str, NearestMiss]) -> dict[str, Any]:
    """Return moves and stays with the totals of a plan."""
    return {
        "moves": [_move_view(cloud, move) for move in plan.moves],
        "stays": [_stay_view(cloud, stay, misses.get(stay.server.uuid)) for stay in plan.stays],
        "waves": plan.waves,
        "gib": round(plan.gib, 3),
        "not_counted": list(NOT_COUNTED),
    }


def _move_view(cloud: Cloud, move: PlannedMove) -> dict[str, Any]:
    hosts = cloud.hosts.hosts
    return {
        "server": move.server.uuid,
        "name": move.server.name,
        "from": hosts[move.source],
        "to": hosts[move.row],
        "wave": move.wave,
        "live": move.kind is MoveKind.LIVE_MIGRATE,
        "gib": round(move.gib, 3),
    }


def _stay_view(cloud: Cloud, stay: Stay, miss: NearestMiss | None) -> dict[str, Any]:
    return {
        "server": stay.server.uuid,
        "name": stay.server.name,
        "host": cloud.hosts.hosts[stay.server.row],
        "reason": stay.reason,
        "rules": hindrances_view(stay.rules),
        "nearest_miss": nearest_view(() if miss is None else (miss,)),
    }
