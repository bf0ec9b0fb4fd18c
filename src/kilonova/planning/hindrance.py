# SPDX-License-Identifier: Apache-2.0
"""Hindrances: the rules that reject hosts for a refused server."""

import numpy as np

from kilonova.records import dataclass
from kilonova.scheduler.decision import SURVIVED, Decision
from kilonova.scheduler.host_table import BoolArray

DEVICES = "devices"
DEVICES_REASON = "cannot give the server's NUMA cells or PCI devices"


@dataclass(frozen=True, slots=True)
class Hindrance:
    """A rule that rejects hosts for a refused server. ``hosts``: the number of hosts that it rejects first."""

    rule: str
    reason: str
    hosts: int


def hindrances_of(refusal: Decision, among: BoolArray | None = None) -> tuple[Hindrance, ...]:
    """Return why a decision refused its server, in the order of the rules.

    ``among``: the hosts to count; None for all hosts. Shapes: ``among`` (H,).
    """
    numbers = refusal.removed_by if among is None else refusal.removed_by[among]
    removed = np.bincount(numbers, minlength=SURVIVED + 1).tolist()
    found = [
        Hindrance(step.rule, step.reason, count)
        for step, count in zip(refusal.steps, removed, strict=False)
        if count and step.removed
    ]
    if removed[SURVIVED]:
        found.append(Hindrance(DEVICES, DEVICES_REASON, removed[SURVIVED]))
    return tuple(found)
