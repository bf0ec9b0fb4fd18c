# SPDX-License-Identifier: Apache-2.0
"""The whole story: every rule asked about every host, nobody dropped on the way."""

from dataclasses import dataclass

import numpy as np

from kilonova.model.request_spec import RequestSpec
from kilonova.scheduler.engine.engine import Engine
from kilonova.scheduler.engine.funnel import is_forced
from kilonova.scheduler.host_table import BoolArray, HostTable, IntArray


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one rule says of each host. Shapes: ``passes`` (H,) bool."""

    rule: str
    reason: str
    passes: BoolArray


@dataclass(frozen=True, slots=True)
class Explanation:
    """Every rule's verdict, in the order of the funnel. ``forced``: the filters were bypassed, so they are absent.

    Shapes: ``passed`` (H,) bool; ``hindrances`` (H,) int64, how many rules keep the host out;
    ``alone`` one number a verdict, how many hosts nothing but this verdict keeps out.
    """

    verdicts: tuple[Verdict, ...]
    passed: BoolArray
    forced: bool
    hindrances: IntArray
    alone: tuple[int, ...]

    def reasons(self, row: int) -> tuple[tuple[str, str], ...]:
        """Return (rule, reason) of every rule that keeps the host out; empty for one that may be used."""
        return tuple((verdict.rule, verdict.reason) for verdict in self.verdicts if not verdict.passes[row])

    def only_hindrance(self) -> dict[str, int]:
        """Return rule → how many hosts nothing but this rule keeps out."""
        found: dict[str, int] = {}
        for verdict, count in zip(self.verdicts, self.alone, strict=True):
            if count:
                found[verdict.rule] = found.get(verdict.rule, 0) + count
        return found


def explain(hosts: HostTable, spec: RequestSpec, engine: Engine) -> Explanation:
    """Ask every rule about every host. Raises: RuleFailed, when a rule raises or answers nonsense."""
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
