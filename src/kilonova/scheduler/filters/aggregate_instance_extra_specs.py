# SPDX-License-Identifier: Apache-2.0
"""AggregateInstanceExtraSpecsFilter: hosts in aggregates whose metadata match the flavor's extra specs."""

from typing import ClassVar

import numpy as np

from kilonova.model.request_spec import RequestSpec
from kilonova.records import dataclass
from kilonova.scheduler.aggregate_rules import in_any, split
from kilonova.scheduler.depends_on import DependsOn
from kilonova.scheduler.extra_specs import match
from kilonova.scheduler.host_table import BoolArray, HostTable
from kilonova.scheduler.reads import Elsewhere, Keys, Reads, is_unscoped

SCOPE = "aggregate_instance_extra_specs"


@dataclass(frozen=True, slots=True)
class AggregateInstanceExtraSpecsFilter:
    """Keep hosts whose aggregates match the extra specs that have no scope or ``aggregate_instance_extra_specs:``.

    A host must match all these extra specs. A host matches an extra spec if one of its aggregates has the key as
    metadata with a value that meets the requirement; comma lists are split, and each value is tested separately.

    Shapes: for each key, one test per aggregate (A,), combined by OR for each host → (H,) bool.
    Source: spec SCHEDULER §3 #11.
    """

    run_once: ClassVar[bool] = True
    runs_on_rebuild: ClassVar[bool] = False
    depends_on: ClassVar[DependsOn] = DependsOn.SHARED
    reads: ClassVar[Reads] = Reads(
        extra_specs=Keys(prefixes=(f"{SCOPE}:",), matching=(is_unscoped,)),
        metadata=Keys(elsewhere=(Elsewhere.EXTRA_SPECS,)),
    )
    reason: str = "not in an aggregate that matches the flavor's extra specs"

    def passes(self, hosts: HostTable, spec: RequestSpec) -> BoolArray:
        wanted: list[tuple[str, str]] = []
        for key, requirement in spec.flavor.extra_specs.items():
            scope, colon, rest = key.partition(":")
            if not colon:
                wanted.append((key, requirement))
            elif scope == SCOPE:
                wanted.append((rest, requirement))
        if not wanted:
            return hosts.all_hosts

        def verdicts() -> BoolArray:
            masks = [_matching(hosts, key, requirement) for key, requirement in wanted]
            combined: BoolArray = np.logical_and.reduce(masks)
            return combined

        return hosts.memo.get((AggregateInstanceExtraSpecsFilter, tuple(wanted)), verdicts)


def _matching(hosts: HostTable, key: str, requirement: str) -> BoolArray:
    return in_any(
        hosts,
        [
            key in aggregate.metadata and any(match(value, requirement) for value in split(aggregate.metadata[key]))
            for aggregate in hosts.aggregates.aggregates
        ],
    )
