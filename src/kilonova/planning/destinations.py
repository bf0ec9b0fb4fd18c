# SPDX-License-Identifier: Apache-2.0
"""Destinations of planned moves: the scheduler's best host, or the one with the least room left."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from kilonova.model.server_migration import MoveKind
from kilonova.planning.cloud import Cloud
from kilonova.planning.planned_server import PlannedServer
from kilonova.scheduler.decision import SURVIVED, Decision
from kilonova.scheduler.depends_on import DependsOn, dependence_of
from kilonova.scheduler.devices.choice import RANKED_KEPT, first_that_gives
from kilonova.scheduler.engine.funnel import OWN_RULES
from kilonova.scheduler.host_table import BoolArray, FloatArray
from kilonova.scheduler.rule import Filter, rule_name


class Found(NamedTuple):
    """A destination, and the kind of the move to it."""

    row: int
    kind: MoveKind


class Destinations:
    """The choice of destinations on a cloud.

    ``leaving``: service hosts that no move may choose. ``tight``: prefer the host with the least room left after the
    move, so that large servers find room later; otherwise the scheduler's order.
    """

    def __init__(self, cloud: Cloud, leaving: Collection[str], *, tight: bool = False) -> None:
        self.cloud = cloud
        self.leaving = frozenset(leaving)
        self.tight = tight
        self._has_one_node = len(cloud.hosts.rows_of_host()) == len(cloud.hosts)
        #: The rules whose verdicts no move of another server can change.
        self._fixed = {*OWN_RULES, *(rule_name(each) for each in cloud.engine.filters if not _follows_servers(each))}

    def find(self, server: PlannedServer, kinds: Sequence[MoveKind], *, to: str | None = None) -> Found | None:
        """Return a destination for a server; kinds of moves are tried in order. Raises: RuleFailed."""
        for kind in kinds:
            row = self._row(server, kind, to)
            if row is not None:
                return Found(row, kind)
        return None

    def decide(self, server: PlannedServer, kind: MoveKind, to: str | None = None) -> Decision:
        return self.cloud.decide(server, kind, leaving=self.leaving, to=to, limit=RANKED_KEPT)

    def _row(self, server: PlannedServer, kind: MoveKind, to: str | None) -> int | None:
        decision = self.decide(server, kind, to)
        best, _ = first_that_gives(decision, self.cloud.hosts, server.needs)
        if best is None:
            return None
        row = self._tightest(server, decision) if self.tight else best.row
        if server.needs and row != best.row and server.needs.on(self.cloud.hosts, row) is None:
            row = best.row
        return row if self._has_one_node or to is not None else self._claimed(server, kind, row)

    def _claimed(self, server: PlannedServer, kind: MoveKind, row: int) -> int | None:
        """Return the node that a claim of the row's service host would choose."""
        decision = self.decide(server, kind, self.cloud.hosts.hosts[row])
        best, _ = first_that_gives(decision, self.cloud.hosts, server.needs)
        return None if best is None else best.row

    def _tightest(self, server: PlannedServer, decision: Decision) -> int:
        rows = np.flatnonzero(decision.removed_by == SURVIVED)
        return int(rows[np.argmin(self.room_after(server)[rows])])

    def room_after(self, server: PlannedServer) -> FloatArray:
        """Return the share of each host that is left after it takes a server, summed over resources. Shapes: → (H,)."""
        hosts = self.cloud.hosts
        left = np.zeros(len(hosts))
        for name, amount in server.spec.query.totals.items():
            column = hosts.column(name)
            if column is not None:
                capacity = np.maximum(hosts.capacity[:, column], 1)
                left += (hosts.capacity[:, column] - hosts.used[:, column] - amount) / capacity
        return left

    def may_get_room(self, decision: Decision) -> BoolArray:
        """Return the hosts whose first rejecting rule depends on the servers that are there. Shapes: → (H,)."""
        helped = [step.rule not in self._fixed for step in decision.steps]
        by_rule = np.array([*helped, False] if len(helped) < SURVIVED else helped, dtype=np.bool_)
        return by_rule[np.minimum(decision.removed_by, len(by_rule) - 1)]


def _follows_servers(rule: Filter) -> bool:
    """Tell whether the verdict of a filter on a host may depend on the servers of any host."""
    depends_on = dependence_of(rule)
    return depends_on is None or bool(depends_on & (DependsOn.ROWS | DependsOn.NAMES))
