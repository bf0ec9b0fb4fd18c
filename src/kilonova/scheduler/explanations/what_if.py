# SPDX-License-Identifier: Apache-2.0
"""Dry run of a request: a decision per server, a full explanation of one decision, and the nearest misses."""

from collections.abc import Mapping
from dataclasses import replace

from kilonova.model.request_spec import RequestSpec
from kilonova.records import dataclass
from kilonova.scheduler.decision import Decision, RankedHost
from kilonova.scheduler.devices.choice import first_that_gives, needs_of
from kilonova.scheduler.devices.pci_request import Alias
from kilonova.scheduler.engine.batch import Batch
from kilonova.scheduler.engine.engine import Engine
from kilonova.scheduler.explanations.explain import Explanation, explain
from kilonova.scheduler.explanations.nearest_miss import NearestMiss, nearest_misses
from kilonova.scheduler.host_table import HostTable
from kilonova.scheduler.resources import with_resources


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The result of a dry run.

    ``decisions``, ``chosen``: one decision and one host per server, in order. If the request is refused, the last host
    is None.

    ``explained``: index of the explained server: the server without a host, or 0 if every server has a host.
    ``explanation``: the verdicts of all rules for the explained server.
    ``nearest``: the smallest changes after which the explained server would get a host; empty if it has one.
    """

    decisions: tuple[Decision, ...]
    chosen: tuple[RankedHost | None, ...]
    explained: int
    explanation: Explanation
    nearest: tuple[NearestMiss, ...]

    @property
    def fits(self) -> bool:
        return self.chosen[-1] is not None


def what_if(
    hosts: HostTable,
    spec: RequestSpec,
    engine: Engine,
    *,
    count: int = 1,
    limit: int = 10,
    aliases: Mapping[str, Alias] | None = None,
) -> WhatIf:
    """Place ``count`` servers of one request on a copy of the host table, each on its best host.

    The dry run is deterministic: it ignores options that make the choice of hosts random.

    ``aliases``: the configured PCI aliases.

    Raises: InvalidRequest, for contradictory NUMA or PCI options; RuleFailed, if a rule raises an exception or returns
    an invalid result.
    """
    hosts, asked = hosts.with_own_use(), with_resources(spec)
    story = explain(hosts, asked, engine)
    batch = Batch(engine, hosts, asked, limit=limit)
    needs = needs_of(asked, aliases or {})
    decisions: list[Decision] = []
    chosen: list[RankedHost | None] = []
    for index in range(count):
        decision = batch.decide()
        decisions.append(decision)
        best, devices = first_that_gives(decision, hosts, needs)
        chosen.append(best)
        if best is None:
            story = explain(hosts, batch.spec, engine) if index else story
            now = replace(spec, group=batch.spec.group)
            return WhatIf(tuple(decisions), tuple(chosen), index, story, nearest_misses(hosts, now, engine))
        if index + 1 < count:
            batch.place(best.row, share=devices)
    return WhatIf(tuple(decisions), tuple(chosen), 0, story, ())
