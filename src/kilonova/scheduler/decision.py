# SPDX-License-Identifier: Apache-2.0
"""The result of a scheduling decision: ranked hosts, and how many hosts each rule rejected."""

from collections.abc import Mapping

import msgspec
import numpy as np
from numpy.typing import NDArray

from kilonova.records import dataclass

SURVIVED = 255


@dataclass(frozen=True, slots=True)
class RuleCount:
    """Number of hosts before and after one rule of a decision. ``rule``: the class name by which it is configured."""

    rule: str
    reason: str
    hosts_in: int
    hosts_out: int

    @property
    def removed(self) -> int:
        return self.hosts_in - self.hosts_out


class RankedHost(msgspec.Struct, frozen=True):
    """A host that passed all rules. ``weights``: weigher class name → contribution of this weigher to ``score``."""

    row: int
    host: str
    node: str
    uuid: str
    score: float
    weights: Mapping[str, float] = {}


@dataclass(frozen=True, slots=True)
class Decision:
    """The hosts for one server, best first, and the number of hosts that each rule removed, in the order of the rules.

    Shapes: ``removed_by`` (H,) uint8, the index in ``steps`` of the first rule that removed the host, or ``SURVIVED``.
    ``survivors``: number of hosts that passed every rule (``ranked`` holds only the best of them).
    ``forced``: True if the request forced a host, so that the filters did not run.
    ``refusal``: the reason that a scheduler driver gave for choosing no host.
    """

    ranked: tuple[RankedHost, ...]
    steps: tuple[RuleCount, ...]
    removed_by: NDArray[np.uint8]
    survivors: int
    forced: bool = False
    refusal: str | None = None

    @property
    def rejected(self) -> dict[str, int]:
        """Rule → number of hosts that this rule removed. Rules that removed no host are absent."""
        return {step.rule: step.removed for step in self.steps if step.removed}

    def summary(self) -> str:
        """Return how many hosts each rule removed, as a text without host names: ``RamRule: 3 of 5 hosts, …``."""
        return ", ".join(f"{step.rule}: {step.removed} of {step.hosts_in} hosts" for step in self.steps if step.removed)
