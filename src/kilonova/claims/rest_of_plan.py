# SPDX-License-Identifier: Apache-2.0
"""The rest of a saved plan on the present cloud: whether its moves are still valid, and new moves if they are not."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import msgspec

from kilonova.claims.cloud_snapshot import CloudSnapshot, cloud_snapshot
from kilonova.claims.present_drain import drained
from kilonova.claims.stored_plans import NewRest, drain_request, moves_of, stays_of
from kilonova.db import plans
from kilonova.db.database import Database
from kilonova.db.plan_moves import PlanMove
from kilonova.db.plans import PlanRow
from kilonova.mirror.mirror import Mirror
from kilonova.model.saved_plan import PlanKind
from kilonova.planning.checked_waves import checked
from kilonova.planning.cloud import Cloud
from kilonova.planning.plan import Plan, PlannedMove
from kilonova.planning.planned_server import HAS_TASK, KINDS
from kilonova.records import dataclass, replace
from kilonova.scheduler.devices.pci_request import Alias
from kilonova.scheduler.engine.engine import Engine

#: Number of failed moves after which a server stays on its host.
MOST_FAILURES = 3


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the present cloud says of the planned moves.

    ``gone``: moves of servers that were deleted or have left their host, with the reason. ``objection``: why the other
    moves have to be planned again; None if they are valid.
    """

    gone: tuple[tuple[PlanMove, str], ...] = ()
    objection: str | None = None


class PresentPlans:
    """Checks and renews the rests of plans on the present cloud. ``aliases``: the configured PCI aliases."""

    def __init__(
        self, database: Database, mirror: Mirror, engine: Engine, aliases: Mapping[str, Alias] | None = None
    ) -> None:
        self._database = database
        self._mirror = mirror
        self._engine = engine
        self._aliases = aliases or {}

    def judge(self, plan: PlanRow, rest: Sequence[PlanMove], check: Callable[[], None] = lambda: None) -> Verdict:
        """Tell whether the moves of a plan that have not begun are valid. No other move of the plan may be under way.

        ``check``: called regularly; stops the computation by an exception. Raises: RuleFailed, Unavailable.
        """
        if plan.kind is PlanKind.EVACUATE:
            return Verdict()  # the scheduler chooses the hosts, and each move checks its server when it begins
        drained_hosts = frozenset(plan.request["hosts"]) if plan.kind is PlanKind.DRAIN else frozenset()
        sources = frozenset(move.source_host for move in rest)
        if not drained_hosts | sources:
            return Verdict()
        cloud = self._snapshot(drained_hosts | sources).cloud
        gone, planned, objections = _matched(cloud, rest, locked_too=bool(plan.request.get("locked")))
        objections += _newcomers(cloud, drained_hosts, rest, plan.stays)
        if plan.kind is PlanKind.DRAIN:
            elsewhere = self._drained_elsewhere(plan)
            objections += [
                f"Another plan empties host {move.dest_host}." for move in rest if move.dest_host in elsewhere
            ]
        if not objections:
            objections = _refused(cloud, planned, check)
        return Verdict(tuple(gone), objections[0] if objections else None)

    def again(
        self,
        plan: PlanRow,
        rest: Sequence[PlanMove],
        failed: Sequence[PlanMove],
        first_wave: int,
        check: Callable[[], None] = lambda: None,
    ) -> NewRest:
        """Plan the rest again; of a rebalancing, leave out the moves that are no longer valid.

        ``failed``: moves of the plan that have failed: no server moves to a host again on which it failed.
        ``first_wave``: number of the first new wave. Raises: as :meth:`judge`.
        """
        if plan.kind is not PlanKind.DRAIN:
            return self._still_valid(plan, rest, first_wave, check)

        def snapshot(on_hosts: frozenset[str] | None) -> CloudSnapshot:
            taken = self._snapshot(on_hosts)
            _learn(taken.cloud, failed)
            return taken

        asked = replace(drain_request(plan.request), avoiding=self._drained_elsewhere(plan))
        taken, found = drained(snapshot, asked, check)
        return NewRest(moves_of(taken.cloud, found, first_wave), stays_of(taken.cloud, found), taken.seq)

    def _still_valid(
        self, plan: PlanRow, rest: Sequence[PlanMove], first_wave: int, check: Callable[[], None]
    ) -> NewRest:
        taken = self._snapshot(frozenset(move.source_host for move in rest))
        _, planned, _ = _matched(taken.cloud, rest, locked_too=bool(plan.request.get("locked")))
        done, _ = checked(taken.cloud, planned, check)
        return NewRest(moves_of(taken.cloud, Plan(done), first_wave), plan.stays, taken.seq)

    def _drained_elsewhere(self, plan: PlanRow) -> frozenset[str]:
        """Return the hosts that other active plans empty: two plans would move servers to and fro between them."""
        with self._database.read() as connection:
            return plans.drained_elsewhere(connection, plan.uuid)

    def _snapshot(self, on_hosts: Collection[str] | None) -> CloudSnapshot:
        return cloud_snapshot(self._database, self._mirror, self._engine, on_hosts=on_hosts, aliases=self._aliases)


def has_busy_servers(stays: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether a server stays only because it has a task at the moment."""
    return any(HAS_TASK in stay["reason"] for stay in stays)


def _matched(
    cloud: Cloud, rest: Sequence[PlanMove], *, locked_too: bool
) -> tuple[list[tuple[PlanMove, str]], list[PlannedMove], list[str]]:
    """Return moves of servers that are gone, the other moves on the cloud, and objections to moves left out of both."""
    gone: list[tuple[PlanMove, str]] = []
    planned: list[PlannedMove] = []
    objections: list[str] = []
    waves = {wave: number for number, wave in enumerate(sorted({move.wave for move in rest}))}
    for move in rest:
        server = cloud.servers.get(move.server_uuid)
        row = None if server is None else cloud.row_of(server)
        if server is None or row is None or cloud.hosts.hosts[row] != move.source_host:
            gone.append((move, f"The server is no longer on host {move.source_host}."))
            continue
        rows = cloud.hosts.rows_of_host().get(move.dest_host or "", ())
        hindrance = "the server is locked" if server.locked and not locked_too else server.hindrances.get(move.kind)
        if hindrance is None and not len(rows):
            hindrance = f"host {move.dest_host} does not exist"
        if hindrance is not None:
            objections.append(f"Server {move.server_uuid}: {hindrance}.")
            continue
        planned.append(PlannedMove(server, row, _best(cloud, move, rows), move.kind, waves[move.wave]))
    return gone, planned, objections


def _best(cloud: Cloud, move: PlanMove, rows: Sequence[int]) -> int:
    """Return the row of the destination; of a service host with several nodes, the scheduler's choice."""
    if len(rows) > 1:
        decision = cloud.decide(cloud.servers[move.server_uuid], move.kind, to=move.dest_host, limit=1)
        if decision.ranked:
            return decision.ranked[0].row
    return rows[0]


def _newcomers(
    cloud: Cloud, hosts: frozenset[str], rest: Sequence[PlanMove], stays: Sequence[Mapping[str, Any]]
) -> list[str]:
    """Return an objection for each server on a drained host that the plan does not know."""
    known = {move.server_uuid for move in rest} | {stay["server"] for stay in stays}
    return [
        f"Server {server.uuid} is on host {host} and has no planned move."
        for host in sorted(hosts)
        for row in cloud.hosts.rows_of_host().get(host, ())
        for server in cloud.servers_on(row)
        if server.uuid not in known
    ]


def _refused(cloud: Cloud, planned: Sequence[PlannedMove], check: Callable[[], None]) -> list[str]:
    """Return an objection if the scheduler refuses a move in its wave."""
    wanted = {move.server.uuid: move.wave for move in planned}
    done, refused = checked(cloud, planned, check)
    late = [move.server.uuid for move in done if move.wave > wanted[move.server.uuid]]
    return [
        f"The scheduler refuses the planned move of server {uuid}."
        for uuid in (*(s.server.uuid for s in refused), *late)
    ]


def _learn(cloud: Cloud, failed: Sequence[PlanMove]) -> None:
    """Keep servers off the hosts to which their moves have failed, and on their hosts after too many failures."""
    moves: dict[str, list[PlanMove]] = {}
    for move in failed:
        moves.setdefault(move.server_uuid, []).append(move)
    for uuid, some in moves.items():
        server = cloud.servers.get(uuid)
        if server is None:
            continue
        hindrances = server.hindrances
        if len(some) >= MOST_FAILURES:
            hindrances = dict.fromkeys(KINDS, f"{len(some)} moves have failed, the last one because: {some[-1].reason}")
        tried = frozenset(move.dest_host for move in some if move.dest_host is not None)
        cloud.servers[uuid] = msgspec.structs.replace(server, avoided=server.avoided | tried, hindrances=hindrances)
