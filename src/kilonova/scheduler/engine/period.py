# SPDX-License-Identifier: Apache-2.0
"""A period in which the verdicts on all hosts stay the same, as far as only time passes."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from kilonova.errors import RuleFailed
from kilonova.scheduler.depends_on import DependsOn, dependence_of
from kilonova.scheduler.engine.engine import Engine
from kilonova.scheduler.host_table import HostTable, IntArray
from kilonova.scheduler.live_hosts import LiveHosts
from kilonova.scheduler.rule import rule_name


class Period(NamedTuple):
    """A period from ``start`` until before ``end``, in epoch seconds.

    ``live``: the hosts to which it applies. ``hosts``: their table as of ``start``.
    """

    start: float
    end: float
    live: LiveHosts
    hosts: HostTable

    @classmethod
    def beginning(cls, engine: Engine, live: LiveHosts, now: float) -> "Period":
        """Return the period that begins at a time. Raises: RuleFailed."""
        hosts = live.at(now)
        rules = _rules(engine)
        if not rules:
            return cls(now, math.inf, live, hosts)
        silent = replace(hosts, last_seen=live.last_seen(math.inf))
        return cls(now, min(_unchanged_until(rule, silent) for rule in rules), live, hosts)

    def includes(self, now: float) -> bool:
        """Tell whether a time is in the period."""
        return self.start <= now < self.end


def touched_by_time(engine: Engine, live: LiveHosts) -> IntArray | None:
    """Return the rows of the hosts on which verdicts change if only time passes, or None if these may be all hosts."""
    if not all(getattr(rule, "only_silent_hosts", False) for rule in _rules(engine)):
        return None
    return np.flatnonzero(np.isfinite(live.last_seen(math.inf)))


def _rules(engine: Engine) -> Sequence[Any]:
    """Return the filters whose verdicts depend on the time."""
    return [each for each in engine.filters if DependsOn.TIME in (dependence_of(each) or DependsOn.SHARED)]


def _unchanged_until(rule: Any, hosts: HostTable) -> float:
    try:
        return float(rule.unchanged_until(hosts))
    except Exception as error:  # third-party code may raise any exception
        name = rule_name(rule)
        raise RuleFailed(f"Filter {name} failed.", rule=name) from error
