# SPDX-License-Identifier: Apache-2.0
"""What would happen to a request: its decisions, the whole story behind one of them, the nearest miss."""

from dataclasses import dataclass, replace

from kilonova.model.request_spec import RequestSpec
from kilonova.scheduler.batch import Batch
from kilonova.scheduler.decision import Decision
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
    """Place ``count`` servers on a copy of the cloud, as one request for them would, best host first.

    Nothing is left to chance: where the configuration does so, this is what is likeliest.

    Raises: RuleFailed, when a rule raises or answers nonsense.
    """
    hosts = hosts.with_own_use()
    story = explain(hosts, with_resources(spec), engine)
    batch = Batch(engine, hosts, with_resources(spec), limit=limit)
    decisions: list[Decision] = []
    for index in range(count):
        decision = batch.decide()
        decisions.append(decision)
        if not decision.ranked:
            story = explain(hosts, batch.spec, engine) if index else story
            now = replace(spec, group=batch.spec.group)
            return WhatIf(tuple(decisions), index, story, nearest_misses(hosts, now, engine))
        if index + 1 < count:
            batch.place(decision.ranked[0].row)
    return WhatIf(tuple(decisions), 0, story, ())
