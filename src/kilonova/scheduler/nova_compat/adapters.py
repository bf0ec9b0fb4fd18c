# SPDX-License-Identifier: Apache-2.0
"""Adapters that run Nova-style filters and weighers in the engine.

A Nova-style filter has ``host_passes(host_state, spec_obj)``, a Nova-style weigher
``_weigh_object(host_state, weight_properties)``.
Both kinds of rules run host by host, after the column filters and only on the remaining hosts.
"""

import inspect
from typing import Any

import numpy as np

from kilonova.model.request_spec import RequestSpec
from kilonova.records import dataclass
from kilonova.scheduler.host_table import BoolArray, FloatArray, HostTable, IntArray, Rows
from kilonova.scheduler.nova_compat.host_state import HostState
from kilonova.scheduler.nova_compat.request_view import RequestView
from kilonova.scheduler.reads import Reads, reads_of
from kilonova.scheduler.weighers.base import WeighedHost


@dataclass(frozen=True, slots=True)
class HostFilterAdapter:
    """Adapter that runs a Nova-style filter on the remaining hosts. ``name``: the class name of the filter."""

    name: str
    filter: Any
    reason: str = "the filter's host_passes rejects this host"

    @property
    def reads(self) -> Reads | None:
        return reads_of(self.filter)

    @property
    def run_once(self) -> bool:
        if hasattr(self.filter, "run_filter_for_index"):
            return not self.filter.run_filter_for_index(1)
        return bool(getattr(self.filter, "run_filter_once_per_request", False))

    @property
    def runs_on_rebuild(self) -> bool:
        return bool(getattr(self.filter, "RUN_ON_REBUILD", False))

    def passes(self, hosts: HostTable, spec: RequestSpec) -> BoolArray:
        return self.passes_among(hosts, spec, np.ones(len(hosts), dtype=np.bool_))

    def passes_among(self, hosts: HostTable, spec: RequestSpec, alive: BoolArray) -> BoolArray:
        """Return the ``alive`` hosts that pass. If ``filter_all`` returns None, no host passes. Shapes: (H,) → (H,)."""
        passed = np.zeros(len(hosts), dtype=np.bool_)
        view = RequestView(spec)
        states = {int(row): HostState(hosts, int(row)) for row in np.flatnonzero(alive)}
        if hasattr(self.filter, "filter_all"):
            kept = self.filter.filter_all(list(states.values()), view)
            rows = {id(state): row for row, state in states.items()}
            passed[[rows[id(state)] for state in kept or ()]] = True
        else:
            passed[[row for row, state in states.items() if self.filter.host_passes(state, view)]] = True
        return passed


@dataclass(frozen=True, slots=True)
class HostWeigherAdapter:
    """Adapter that runs a Nova-style weigher on the hosts that passed. ``name``: the class name of the weigher."""

    name: str
    weigher: Any

    @property
    def reads(self) -> Reads | None:
        return reads_of(self.weigher)

    @property
    def minimum(self) -> float | None:
        return getattr(self.weigher, "minval", None)

    @property
    def maximum(self) -> float | None:
        return getattr(self.weigher, "maxval", None)

    def factors(self, hosts: HostTable, rows: Rows) -> float | FloatArray:
        multiplier = getattr(self.weigher, "weight_multiplier", 1.0)
        if not callable(multiplier):
            return float(multiplier)
        if not inspect.signature(multiplier).parameters:  # weight_multiplier() of older weighers has no host argument
            return float(multiplier())
        return np.array([multiplier(state) for state in _states(hosts, rows)], dtype=np.float64)

    def weigh(self, hosts: HostTable, spec: RequestSpec, rows: Rows) -> FloatArray:
        view, states = RequestView(spec), _states(hosts, rows)
        if hasattr(self.weigher, "weigh_objects"):
            ratings = self.weigher.weigh_objects([WeighedHost(state) for state in states], view)
        else:
            ratings = [self.weigher._weigh_object(state, view) for state in states]  # noqa: SLF001  Nova's name
        return np.array(ratings, dtype=np.float64)


def _states(hosts: HostTable, rows: Rows) -> list[HostState]:
    chosen: IntArray = np.arange(len(hosts))[rows]
    return [HostState(hosts, int(row)) for row in chosen]
