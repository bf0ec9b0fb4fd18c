# SPDX-License-Identifier: Apache-2.0
"""Placement queries that root providers serve alone, with the room of each host for more servers.

A query with a fallback (pinned CPUs as PCPU, or else as VCPU) yields two of them; all other queries yield one.
"""

from collections.abc import Mapping

import numpy as np

from kilonova.model.request_spec import ResourceQuery
from kilonova.placement.capacity import most_used
from kilonova.records import dataclass
from kilonova.scheduler.engine.funnel import LaterRoom, fallback_query, resource_steps
from kilonova.scheduler.engine.provider_trees import needs_trees
from kilonova.scheduler.host_table import BoolArray, HostTable, IntArray

UNLIMITED = np.iinfo(np.int64).max
"""Number of servers for which there is room on a host if the query requests no resources."""


@dataclass(frozen=True, slots=True)
class RootQuery:
    """One query, without its fallback.

    ``allowed``: the hosts that have the traits and the resource classes of the query. ``most``: column → the largest
    usage at which one more server fits. ``amounts``: column → amount that a server takes.
    Shapes: ``allowed`` (H,), values of ``most`` (H,).
    """

    allowed: BoolArray
    most: Mapping[int, IntArray]
    amounts: Mapping[int, int]

    @classmethod
    def of(cls, hosts: HostTable, query: ResourceQuery) -> "RootQuery":
        every = hosts.all_hosts
        allowed = every
        for step in resource_steps(hosts, query, lambda: every):
            if not isinstance(step.judge, LaterRoom):
                allowed = allowed & step.mask
        amounts: dict[int, int] = {}
        for name, amount in query.totals.items():
            column = hosts.column(name)
            if column is not None and amount:
                amounts[column] = amount
            elif amount:
                allowed = np.zeros(len(hosts), dtype=np.bool_)
        return cls(allowed, {column: most_used(hosts, column, amount) for column, amount in amounts.items()}, amounts)

    def has_room(self, hosts: HostTable) -> BoolArray:
        """Return the hosts with room for one more server. Shapes: → (H,)."""
        room = self.allowed
        for column, most in self.most.items():
            room = room & (hosts.used[:, column] <= most)
        return room

    def room(self, hosts: HostTable) -> IntArray:
        """Return the number of further servers for which each host has room. Shapes: → (H,)."""
        room = np.where(self.allowed, UNLIMITED, 0)
        for column, most in self.most.items():
            more = (most - hosts.used[:, column]) // self.amounts[column] + 1
            room = np.minimum(room, np.maximum(more, 0))
        return room

    def take(self, hosts: HostTable, servers: IntArray | BoolArray) -> None:
        """Add the usage of ``servers`` more servers on each host. Shapes: ``servers`` (H,)."""
        for column, amount in self.amounts.items():
            hosts.used[:, column] += amount * servers


def root_queries(hosts: HostTable, query: ResourceQuery) -> tuple[RootQuery, ...] | None:
    """Return the query and its fallback, in this order, which is the scheduler's order of attempts.

    None if the query needs nested or sharing providers.
    """
    queries = [query] if query.fallback is None else [query, fallback_query(query, query.fallback)]
    if any(needs_trees(hosts, each) for each in queries):
        return None
    return tuple(RootQuery.of(hosts, each) for each in queries)
