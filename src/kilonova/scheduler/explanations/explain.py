# SPDX-License-Identifier: Apache-2.0
"""Full explanations of requests: the verdict of every rule on every host, even if an earlier rule excludes the host."""

import numpy as np

from kilonova.model.request_spec import RequestSpec
from kilonova.records import dataclass
from kilonova.scheduler.engine.engine import Engine
from kilonova.scheduler.engine.funnel import is_forced
from kilonova.scheduler.host_table import BoolArray, HostTable, IntArray


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict of one rule on all hosts. Shapes: ``passes`` (H,) bool."""

    rule: str
    reason: str
    passes: BoolArray


@dataclass(frozen=True, slots=True)
class Explanation:
    """The verdicts of all rules, in the order in which the rules run.

    ``forced``: True if the request forces a host, so that there are no verdicts of filters.

    Shapes: ``passed`` (H,) bool; ``hindrances`` (H,) int64, the number of rules that exclude the host;
    ``alone``: for each verdict, the number of hosts that only this verdict excludes.
    """

    verdicts: tuple[Verdict, ...]
    passed: BoolArray
    forced: bool
    hindrances: IntArray
    alone: tuple[int, ...]

    def reasons(self, row: int) -> tuple[tuple[str, str], ...]:
        """Return (rule, reason) of each rule that excludes the host at ``row``; an empty tuple if the host fits."""
        return tuple((verdict.rule, verdict.reason) for verdict in self.verdicts if not verdict.passes[row])

    def only_hindrance(self) -> dict[str, int]:
        """Return rule → number of hosts that only this rule excludes."""
        found: dict[str, int] = {}
        for verdict, count in zip(self.verdicts, self.alone, strict=True):
            if count:
                found[verdict.rule] = found.get(verdict.rule, 0) + count
        return found


def explain(hosts: HostTable, spec: RequestSpec, engine: Engine) -> Explanation:
    """Run every rule on every host. Raises: RuleFailed, if a rule raises an exception or returns an invalid result."""
    all_hosts = hosts.all_hosts
    verdicts = tuple(
        Verdict(step.rule, step.reason, step.mask) for step in engine.funnel(hosts, spec, lambda: all_hosts)
    )
    hindrances = np.zeros(len(hosts), dtype=np.int64)
    for verdict in verdicts:
        if verdict.passes is not all_hosts:
            hindrances += ~verdict.passes
    once = hindrances == 1
    return Explanation(
        verdicts=verdicts,
        passed=hindrances == 0,
        forced=is_forced(spec),
        hindrances=hindrances,
        alone=tuple(
            0 if verdict.passes is all_hosts else int(np.count_nonzero(once & ~verdict.passes)) for verdict in verdicts
        ),
    )
