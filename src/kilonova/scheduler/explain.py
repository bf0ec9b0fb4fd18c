# SPDX-License-Identifier: Apache-2.0
"""The whole story: every rule asked about every host, nobody dropped on the way."""

from dataclasses import dataclass

import numpy as np

from kilonova.model.request_spec import RequestSpec
from kilonova.scheduler.engine import Engine
from kilonova.scheduler.funnel import funnel, is_forced
from kilonova.scheduler.host_table import BoolArray, HostTable


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one rule says of each host. Shapes: ``passes`` (H,) bool."""

    rule: str
    reason: str
    passes: BoolArray


@dataclass(frozen=True, slots=True)
class Explanation:
    """Every rule's verdict, in the order of the funnel. ``forced``: the filters were bypassed, so they are absent."""

    verdicts: tuple[Verdict, ...]
    passed: BoolArray
    forced: bool

    def reasons(self, row: int) -> tuple[tuple[str, str], ...]:
        """Return (rule, reason) of every rule that keeps the host out; empty for one that may be used."""
        return tuple((verdict.rule, verdict.reason) for verdict in self.verdicts if not verdict.passes[row])

    def only_hindrance(self) -> dict[str, int]:
        """Return rule → how many hosts nothing but this rule keeps out."""
        if not self.verdicts:
            return {}
        lost = ~np.array([verdict.passes for verdict in self.verdicts])
        alone = lost & (lost.sum(axis=0) == 1)
        return {
            verdict.rule: int(count) for verdict, count in zip(self.verdicts, alone.sum(axis=1), strict=True) if count
        }


def explain(hosts: HostTable, spec: RequestSpec, engine: Engine) -> Explanation:
    """Ask every rule about every host. Raises: RuleFailed, when a rule raises or answers nonsense."""
    everybody = hosts.everyone
    verdicts = tuple(
        Verdict(step.rule, step.reason, step.mask)
        for step in funnel(
            hosts,
            spec,
            engine.request_filters,
            engine.filters,
            lambda: everybody,
            pcpu_fallback=engine.pcpu_fallback,
        )
    )
    passed = everybody
    for verdict in verdicts:
        passed = passed & verdict.passes
    return Explanation(verdicts, passed, is_forced(spec))
