# SPDX-License-Identifier: Apache-2.0
"""A period in which the verdicts on all hosts stay the same, as far as only time passes."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from kilonova.scheduler.depends_on import DependsOn, dependence_of
from kilonova.scheduler.engine.engine import Engine
from kilonova.scheduler.host_table import HostTable
from kilonova.scheduler.live_hosts import LiveHosts


class Period(NamedTuple):
    """A period from ``start`` until before ``end``, in epoch seconds. ``hosts``: the live table as of ``start``."""

    start: float
    end: float
    hosts: HostTable

    @classmethod
    def beginning(cls, engine: Engine, live: LiveHosts, now: float) -> "Period":
        """Return the period that begins at a time."""
        hosts = live.at(now)
        rules: Sequence[Any] = [each for each in engine.filters if _depends_on_time(each)]
        if not rules:
            return cls(now, math.inf, hosts)
        silent = replace(hosts, last_seen=live.last_seen(math.inf))
        return cls(now, min(float(rule.unchanged_until(silent)) for rule in rules), hosts)

    def includes(self, now: float) -> bool:
        """Tell whether a time is in the period."""
        return self.start <= now < self.end


def _depends_on_time(rule: object) -> bool:
    return DependsOn.TIME in (dependence_of(rule) or DependsOn.SHARED)
