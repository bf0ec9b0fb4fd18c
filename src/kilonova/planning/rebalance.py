# SPDX-License-Identifier: Apache-2.0
"""Rebalancing: a bounded number of moves towards an objective; the cloud is not worse after any of them."""

from collections.abc import Callable, Sequence

import numpy as np

from kilonova.model.move_plan import How, Objective
from kilonova.model.server_migration import MoveKind
from kilonova.planning.checked_waves import checked
from kilonova.planning.cloud import Cloud
from kilonova.planning.destinations import Destinations
from kilonova.planning.levelling import IntArray, Levelling, Pools
from kilonova.planning.mending import Violation, violations
from kilonova.planning.order_of_moves import in_waves
from kilonova.planning.packing import Packing
from kilonova.planning.plan import NO_LIMITS, Limits, Plan, PlannedMove, Stay, possible_kinds
from kilonova.planning.planned_server import PlannedServer
from kilonova.records import dataclass

#: The resource classes that ``spread`` levels.
SPREAD = ("VCPU", "PCPU", "MEMORY_MB", "DISK_GB")


@dataclass(frozen=True, slots=True)
class RebalanceRequest:
    """What to improve, and at which cost.

    ``resource``: the resource class of LEVEL. ``aggregate``: id of the only aggregate whose hosts take part.
    ``moves``, ``gib``: limits of the plan; None for no limit.
    """

    objective: Objective
    resource: str = ""
    aggregate: int | None = None
    moves: int | None = None
    gib: float | None = None
    how: How = How.EITHER
    limits: Limits = NO_LIMITS
    locked_too: bool = False


@dataclass(frozen=True, slots=True)
class Rebalanced:
    """A plan, with the value of the objective before and after it; less is better.

    The value is the imbalance of usage shares (SPREAD, LEVEL; :meth:`Pools.imbalance`), the number of hosts with
    servers (PACK), or the number of violations (MEND).
    """

    plan: Plan
    before: float
    after: float


def rebalance(cloud: Cloud, asked: RebalanceRequest, check: Callable[[], None] = lambda: None) -> Rebalanced:
    """Return moves towards an objective. The cloud does not change.

    ``check``: called regularly; stops the computation by an exception. Raises: RuleFailed; what ``check`` raises.
    """
    value = measure(cloud, asked)
    before = value()
    with cloud.branch():
        moves, stays = _moves(cloud, asked, check)
    # Moves that share a host keep their order, so that each has its planned gain.
    keeps_order = asked.objective in {Objective.SPREAD, Objective.LEVEL}
    done, refused = checked(cloud, in_waves(cloud, moves, asked.limits, keeps_order=keeps_order), check)
    with cloud.branch():
        for move in done:
            cloud.move(move.server, move.row)
        after = value()
    return Rebalanced(Plan(done, (*stays, *refused)), before, after)


def measure(cloud: Cloud, asked: RebalanceRequest) -> Callable[[], float]:
    """Return a function that returns the present value of the objective."""
    rows = _rows(cloud, asked)
    if asked.objective is Objective.PACK:
        return lambda: float(np.count_nonzero(cloud.hosts.num_instances[rows]))
    if asked.objective is Objective.MEND:
        return lambda: float(len(_violations(cloud, asked)))
    pools = _pools(cloud, asked)
    return pools.imbalance


def _moves(
    cloud: Cloud, asked: RebalanceRequest, check: Callable[[], None]
) -> tuple[Sequence[PlannedMove], list[Stay]]:
    """Make the moves on the cloud and return them in order, with the servers that should move but stay."""
    if asked.objective is Objective.MEND:
        return _mended(cloud, asked, check)
    movers = _movers(cloud, asked)
    if asked.objective is Objective.PACK:
        kinds = {server.uuid: possible for server, possible in movers}
        packing = Packing(cloud, _rows(cloud, asked).tolist(), kinds, asked.moves, asked.gib, check)
        return packing.moves(), []
    levelling = Levelling(cloud, _pools(cloud, asked), movers, check)
    return list(levelling.moves(most=asked.moves, most_gib=asked.gib)), []


def _movers(cloud: Cloud, asked: RebalanceRequest) -> list[tuple[PlannedServer, tuple[MoveKind, ...]]]:
    found = []
    for uuid in sorted(cloud.servers):
        server = cloud.servers[uuid]
        possible = possible_kinds(server, asked.how, locked_too=asked.locked_too)
        if not isinstance(possible, Stay):
            found.append((server, possible))
    return found


def _rows(cloud: Cloud, asked: RebalanceRequest) -> IntArray:
    """Return the hosts that take part. Disabled hosts, and those that are down, only lose servers."""
    if asked.aggregate is None:
        return np.arange(len(cloud.hosts))
    index = cloud.hosts.aggregates
    chosen = [each.id == asked.aggregate for each in index.aggregates]
    return np.flatnonzero(index.hosts_in_any(chosen)) if any(chosen) else np.zeros(0, dtype=np.int64)


def _pools(cloud: Cloud, asked: RebalanceRequest) -> Pools:
    """Return the pools: for LEVEL without an aggregate, hosts of the same aggregates are a pool each."""
    number = np.full(len(cloud.hosts), -1, dtype=np.int64)
    number[_rows(cloud, asked)] = 0
    if asked.objective is Objective.LEVEL and asked.aggregate is None:
        known: dict[bytes, int] = {}
        membership = cloud.hosts.aggregates.membership
        for row in range(len(cloud.hosts)):
            number[row] = known.setdefault(membership[:, row].tobytes(), len(known))
    return Pools(cloud, number, SPREAD if asked.objective is Objective.SPREAD else (asked.resource,))


def _violations(cloud: Cloud, asked: RebalanceRequest) -> list[Violation]:
    rows = set(_rows(cloud, asked).tolist())
    return [each for each in violations(cloud) if cloud.row_of(each.server) in rows]


def _mended(
    cloud: Cloud, asked: RebalanceRequest, check: Callable[[], None]
) -> tuple[Sequence[PlannedMove], list[Stay]]:
    destinations = Destinations(cloud, ())
    moves: list[PlannedMove] = []
    stays: list[Stay] = []
    gib = 0.0
    for each in sorted(_violations(cloud, asked), key=lambda each: each.server.disk_gib):
        check()
        server = each.server
        possible = possible_kinds(server, asked.how, locked_too=asked.locked_too)
        if isinstance(possible, Stay):
            stays.append(_staying(each, possible.reason))
            continue
        found = destinations.find(server, possible)
        if found is None:
            stays.append(_staying(each, "no host can take the server"))
            continue
        move = PlannedMove(server, server.row, found.row, found.kind)
        if len(moves) == asked.moves or (asked.gib is not None and gib + move.gib > asked.gib):
            stays.append(_staying(each, "the limits of the plan are reached"))
            continue
        cloud.move(server, move.row)
        moves.append(move)
        gib += move.gib
    return moves, stays


def _staying(violation: Violation, why: str) -> Stay:
    return Stay(violation.server, f"violates {violation.rule} ({violation.reason}), but {why}")
