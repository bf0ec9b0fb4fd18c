# SPDX-License-Identifier: Apache-2.0
"""Protocols of the rules that the engine calls: request filters, filters and weighers. No base class is needed.

A rule may have ``reads`` (:mod:`kilonova.scheduler.reads`), which declares the settings that it reads, and
``depends_on`` (:mod:`kilonova.scheduler.depends_on`), which lets its results be kept for later requests.
"""

from typing import Protocol

from kilonova.model.request_spec import RequestSpec
from kilonova.scheduler.aggregate_index import AggregateIndex
from kilonova.scheduler.host_table import BoolArray, FloatArray, HostTable, Rows


class RequestFilter(Protocol):
    """Adds conditions to the Placement query of a request, before any host is judged."""

    @property
    def name(self) -> str: ...
    @property
    def reason(self) -> str:
        """A phrase for users: the reason why the added conditions exclude a host."""

    def apply(self, spec: RequestSpec, aggregates: AggregateIndex) -> RequestSpec:
        """Return ``spec``, with or without additional conditions in its query. Raises: RequestFilterFailed."""


class Filter(Protocol):
    """Judges all hosts at once.

    ``reason``: why a host does not pass, as a phrase for users.
    ``run_once``: the result is the same for all servers of one request.
    ``only_where_placed`` (optional, default False): placing a server changes the result for the chosen host only, so
    only that host is judged again for the next server of the request.
    ``runs_on_rebuild``: the filter also judges the current host of a server that is rebuilt with another image.
    """

    @property
    def reason(self) -> str: ...
    @property
    def run_once(self) -> bool: ...
    @property
    def runs_on_rebuild(self) -> bool: ...
    def passes(self, hosts: HostTable, spec: RequestSpec) -> BoolArray:
        """Return the mask of the hosts that pass. A filter must not change the arguments or depend on other filters.

        Shapes: → (H,).
        """


class Weigher(Protocol):
    """Rates the hosts that passed the filters. Built-in weighers inherit ``factors`` from ``weighers.base``.

    ``only_where_placed`` (optional, default False): placing a server changes only the rating of the chosen host. It
    changes no multiplier.
    ``minimum`` / ``maximum``: fixed bounds for scaling; None uses the smallest / largest rating among the hosts.
    """

    @property
    def minimum(self) -> float | None: ...
    @property
    def maximum(self) -> float | None: ...
    def factors(self, hosts: HostTable, rows: Rows) -> float | FloatArray:
        """Return the multiplier of the scaled ratings: one number, or one per host. Shapes: → () or (N,)."""

    def weigh(self, hosts: HostTable, spec: RequestSpec, rows: Rows) -> FloatArray | None:
        """Rate ``rows`` on any scale; higher is better. None if the weigher has no preference. Shapes: → (N,)."""


def rule_name(rule: object) -> str:
    """Return the class name by which a rule is configured; for an adapter, the name of the adapted class."""
    return str(getattr(rule, "name", type(rule).__name__))


def reason_of(rule: Filter | RequestFilter, spec: RequestSpec) -> str:
    """Return the reason of a rule, which names the ports and networks of the request that the rule concerns.

    A rule may have ``reason_for(spec)`` for requests with networks.
    """
    named = getattr(rule, "reason_for", None) if spec.networks else None
    return rule.reason if named is None else str(named(spec))
