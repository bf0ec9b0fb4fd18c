# SPDX-License-Identifier: Apache-2.0
"""What would happen to a request: its decisions, the whole story behind one of them, the nearest miss."""

from dataclasses import dataclass, replace

from kilonova.model.request_spec import RequestSpec
from kilonova.model.server_group import GroupView
from kilonova.scheduler.decision import Decision, RankedHost
from kilonova.scheduler.engine import Engine
from kilonova.scheduler.explain import Explanation, explain
from kilonova.scheduler.host_table import HostTable
from kilonova.scheduler.nearest_miss import NearestMiss, nearest_misses
from kilonova.scheduler.resources import with_resources


@dataclass(frozen=True, slots=True)
class WhatIf:
    """``decisions``: one a server, in order; the last one is empty when the request as a whole would be refused.

    ``explanation``: of server ``explained`` (an index): the one that finds no host, else the first.
    ``nearest``: what would give that server a host.
    """

    decisions: tuple[Decision, ...]
    explained: int
    explanation: Explanation
    nearest: tuple[NearestMiss, ...]

    @property
    def fits(self) -> bool:
        return bool(self.decisions[-1].ranked)


def what_if(hosts: HostTable, spec: RequestSpec, engine: Engine, *, count: int = 1, limit: int = 10) -> WhatIf:
    """Place ``count`` servers on a copy of the cloud, each seeing the ones before it, best host first.

    Nothing is left to chance: where the configuration does so, this is what is likeliest.

    Raises: RuleFailed, when a rule raises or answers nonsense.
    """
    hosts = replace(
        hosts,
        used=hosts.used.copy(order="K"),
        num_instances=hosts.num_instances.copy(),
        num_io_ops=hosts.num_io_ops.copy(),
    )
    story = explain(hosts, with_resources(spec), engine)
    decisions: list[Decision] = []
    for index in range(count):
        decision = engine.decide(hosts, with_resources(spec), limit=limit, is_first=index == 0)
        decisions.append(decision)
        if not decision.ranked:
            story = explain(hosts, with_resources(spec), engine) if index else story
            return WhatIf(tuple(decisions), index, story, nearest_misses(hosts, spec, engine))
        spec = _occupy(hosts, spec, decision.ranked[0])
    return WhatIf(tuple(decisions), 0, story, ())


def _occupy(hosts: HostTable, spec: RequestSpec, best: RankedHost) -> RequestSpec:
    """Count one server as placed, in the columns that are this table's own; return the request for the next one."""
    for name, amount in with_resources(spec).query.resources.items():
        column = hosts.column(name)
        if column is not None:
            hosts.used[best.row, column] += amount
    hosts.num_instances[best.row] += 1
    hosts.num_io_ops[best.row] += 1
    return spec if spec.group is None else replace(spec, group=_joined(spec.group, best.host))


def _joined(group: GroupView, host: str) -> GroupView:
    return replace(group, hosts={**group.hosts, host: group.hosts.get(host, 0) + 1})
