# SPDX-License-Identifier: Apache-2.0
"""Plans: moves of servers in waves, and the servers that stay.

All moves of a wave may run at the same time and in any order. A wave begins when all moves of the previous one have
ended and have freed their sources.
"""

from collections.abc import Collection

from kilonova.model.move_plan import How
from kilonova.model.request_spec import RequestSpec
from kilonova.model.server_migration import MoveKind
from kilonova.planning.cloud import Cloud
from kilonova.planning.hindrance import Hindrance, hindrances_of
from kilonova.planning.planned_server import PlannedServer
from kilonova.records import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of each wave; None for no limit.

    ``per_host``: number of moves from or to one service host. ``per_wave``: number of moves. ``gib_per_host``: GiB that
    moves copy from or to one service host; a larger single move is allowed.
    """

    per_host: int | None = None
    per_wave: int | None = None
    gib_per_host: float | None = None


NO_LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class PlannedMove:
    """A move. ``source``, ``row``: rows of the two hosts. ``wave``: number of its wave, from 0."""

    server: PlannedServer
    source: int
    row: int
    kind: MoveKind
    wave: int = 0

    @property
    def gib(self) -> float:
        return self.server.copied_gib(self.kind)


@dataclass(frozen=True, slots=True)
class Stay:
    """A server that stays on its host, with the reason.

    ``rules``: why the scheduler refuses a move. ``request``: the refused request of a move, if there is one.
    """

    server: PlannedServer
    reason: str
    rules: tuple[Hindrance, ...] = ()
    request: RequestSpec | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """Moves in the order of their waves, and the servers that stay although they should leave."""

    moves: tuple[PlannedMove, ...]
    stays: tuple[Stay, ...] = ()

    @property
    def waves(self) -> int:
        return self.moves[-1].wave + 1 if self.moves else 0

    @property
    def gib(self) -> float:
        return sum(move.gib for move in self.moves)


def possible_kinds(server: PlannedServer, how: How, *, locked_too: bool) -> tuple[MoveKind, ...] | Stay:
    """Return the kinds of moves that a server allows, best first, or why it stays."""
    if server.locked and not locked_too:
        return Stay(server, "the server is locked")
    kinds = tuple(kind for kind in how.kinds if kind not in server.hindrances)
    if kinds:
        return kinds
    return Stay(server, "; ".join(dict.fromkeys(server.hindrances[kind] for kind in how.kinds)))


def refusal(cloud: Cloud, server: PlannedServer, kind: MoveKind, leaving: Collection[str]) -> Stay:
    """Return why no host can take a server now. Raises: RuleFailed."""
    request = cloud.request(server, kind, leaving=leaving)
    decision = cloud.engine.decide(cloud.hosts, request, limit=1)
    rules, group, row = hindrances_of(decision), request.group, cloud.row_of(server)
    assert row is not None, "the server is on no host"
    here = cloud.hosts.hosts[row]
    if group is not None and group.policy == "affinity" and group.hosts.get(here):
        reason = (
            f"its server group {group.uuid} has the policy affinity and {group.hosts[here]} more members on the host, "
            "and servers are moved one by one"
        )
        return Stay(server, reason, rules, request)
    if decision.survivors:
        return Stay(server, "its NUMA cells or PCI devices fit on no host", rules, request)
    return Stay(server, "no host can take the server", rules, request)
