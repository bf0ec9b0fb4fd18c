# SPDX-License-Identifier: Apache-2.0
"""Conversion of plans to their stored form: moves and stays by names of hosts, and the request of a drain."""

import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from kilonova.db.placed_servers import PlacedRow
from kilonova.db.plan_moves import NewMove
from kilonova.model.instance import TaskState, VmState
from kilonova.model.move_plan import How
from kilonova.model.server_migration import MoveKind
from kilonova.model.transitions import TRANSITIONS
from kilonova.planning.cloud import Cloud
from kilonova.planning.drain import DrainRequest
from kilonova.planning.plan import Limits, Plan
from kilonova.records import dataclass


@dataclass(frozen=True, slots=True)
class NewRest:
    """Moves for a plan or for the rest of it, the servers that stay, and the change on which they are based."""

    moves: Sequence[NewMove]
    stays: Sequence[Mapping[str, Any]]
    seq: int


def moves_of(cloud: Cloud, plan: Plan, first_wave: int = 0) -> list[NewMove]:
    """Return the moves of a plan. ``first_wave``: number of its first wave."""
    hosts = cloud.hosts.hosts
    return [
        NewMove(
            wave=first_wave + move.wave,
            server_uuid=move.server.uuid,
            server_name=move.server.name,
            kind=move.kind,
            source_host=hosts[move.source],
            dest_host=hosts[move.row],
            gib=round(move.gib, 3),
        )
        for move in plan.moves
    ]


def stays_of(cloud: Cloud, plan: Plan) -> list[Mapping[str, Any]]:
    """Return the servers that a plan does not move, with the reasons."""
    hosts = cloud.hosts.hosts
    return [
        {
            "server": stay.server.uuid,
            "name": stay.server.name,
            "host": hosts[stay.server.row],
            "reason": stay.reason,
        }
        for stay in plan.stays
    ]


def evacuations_of(servers: Sequence[PlacedRow]) -> tuple[list[NewMove], list[Mapping[str, Any]]]:
    """Return an evacuation of each server, the largest first, and the servers whose states forbid it."""
    moves: list[NewMove] = []
    stays: list[Mapping[str, Any]] = []
    transition = TRANSITIONS[MoveKind.EVACUATE.value]
    for row in sorted(servers, key=lambda row: (-row.flavor.memory_mib, -row.flavor.vcpus, row.uuid)):
        task = None if row.task_state is None else TaskState(row.task_state)
        if VmState(row.vm_state) in transition.states and task in transition.tasks:
            moves.append(
                NewMove(
                    wave=0,
                    server_uuid=row.uuid,
                    server_name=row.name,
                    kind=MoveKind.EVACUATE,
                    source_host=row.host,
                    dest_host=None,
                    gib=0.0,
                )
            )
        else:
            state = row.vm_state if task is None else f"{row.vm_state} and the task {task}"
            reason = f"a server with the state {state} cannot be evacuated"
            stays.append({"server": row.uuid, "name": row.name, "host": row.host, "reason": reason})
    return moves, stays


def rest_of_result(packed: bytes, first_wave: int = 0) -> NewRest:
    """Return the plan in the result of a job of the kind rebalance. ``first_wave``: number of the first wave."""
    result = orjson.loads(zlib.decompress(packed))
    stays = [{name: stay[name] for name in ("server", "name", "host", "reason")} for stay in result["stays"]]
    moves = [
        NewMove(
            wave=first_wave + move["wave"],
            server_uuid=move["server"],
            server_name=move["name"],
            kind=MoveKind.LIVE_MIGRATE if move["live"] else MoveKind.COLD_MIGRATE,
            source_host=move["from"],
            dest_host=move["to"],
            gib=move["gib"],
        )
        for move in result["moves"]
    ]
    return NewRest(moves, stays, result["seq"])


def drain_parameters(asked: DrainRequest) -> Mapping[str, Any]:
    """Return the request of a drain as JSON."""
    limits = asked.limits
    return {
        "hosts": sorted(asked.hosts),
        "how": asked.how.value,
        "limits": {
            "per_host": limits.per_host,
            "per_wave": limits.per_wave,
            "gib_per_host": limits.gib_per_host,
        },
        "locked": asked.locked_too,
    }


def drain_request(stored: Mapping[str, Any]) -> DrainRequest:
    """Return the request of a drain from its stored parameters."""
    return DrainRequest(
        frozenset(stored["hosts"]), How(stored["how"]), Limits(**stored["limits"]), bool(stored["locked"])
    )
