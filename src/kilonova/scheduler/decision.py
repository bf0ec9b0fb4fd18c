# SPDX-License-Identifier: Apache-2.0
"""The outcome of one decision: who may, in which order, and why nobody else."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

SURVIVED = 255


@dataclass(frozen=True, slots=True)
class RuleCount:
    """One step of the funnel. ``removed = hosts_in - hosts_out``; ``rule`` is the configured class name."""

    rule: str
    reason: str
    hosts_in: int
    hosts_out: int

    @property
    def removed(self) -> int:
        return self.hosts_in - self.hosts_out


@dataclass(frozen=True, slots=True)
class RankedHost:
    """A host that passed. ``weights``: weigher class name → its share of ``score``."""

    row: int
    host: str
    node: str
    uuid: str
    score: float
    weights: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Decision:
    """Ranked hosts, best first, and the funnel.

    Shapes: ``removed_by`` (H,) uint8, the index into ``steps`` of the first rule that lost the host, or ``SURVIVED``.
    ``survivors``: how many hosts passed every rule (``ranked`` holds only the best of them).
    ``forced``: the filters were bypassed by a forced host.
    ``refusal``: why nobody may, in words, where a scheduler driver decided.
    """

    ranked: tuple[RankedHost, ...]
    steps: tuple[RuleCount, ...]
    removed_by: NDArray[np.uint8]
    survivors: int
    forced: bool = False
    refusal: str | None = None

    @property
    def rejected(self) -> dict[str, int]:
        """Rule → number of hosts it was the first to remove, without the rules that removed none."""
        return {step.rule: step.removed for step in self.steps if step.removed}

    def summary(self) -> str:
        """Say which rules removed how many hosts, naming no host: ``RamRule: 3 of 5 hosts, …``."""
        return ", ".join(f"{step.rule}: {step.removed} of {step.hosts_in} hosts" for step in self.steps if step.removed)
