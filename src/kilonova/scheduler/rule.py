# SPDX-License-Identifier: Apache-2.0
"""What the engine asks of a rule. A built-in or third-party class only has to fit; it inherits nothing.

A rule may have ``reads`` (:mod:`kilonova.scheduler.reads`): what of a request and of aggregates it looks at.
"""

from typing import Protocol

from kilonova.model.request_spec import RequestSpec
from kilonova.scheduler.host_table import AggregateIndex, BoolArray, FloatArray, HostTable, Rows


class RequestFilter(Protocol):
    """Adds conditions to the request before any host is looked at."""

    @property
    def name(self) -> str: ...
    @property
    def reason(self) -> str:
        """What is wrong with a host that the added conditions exclude."""

    def apply(self, spec: RequestSpec, aggregates: AggregateIndex) -> RequestSpec:
        """Return ``spec`` with conditions added to its query, or unchanged. Raises: RequestFilterFailed."""


class Filter(Protocol):
    """Judges all hosts at once.

    ``reason``: what is wrong with a host that does not pass.
    ``run_once``: its answers cannot change between the servers of one request.
    ``only_where_placed`` (may be absent: False): placing a server of the request changes the answer for nobody but the
    host that took it; so that is the only one asked about again.
    ``runs_on_rebuild``: also judges the present host of a server that is rebuilt with another image.
    """

    @property
    def reason(self) -> str: ...
    @property
    def run_once(self) -> bool: ...
    @property
    def runs_on_rebuild(self) -> bool: ...
    def passes(self, hosts: HostTable, spec: RequestSpec) -> BoolArray:
        """Return which hosts pass. Must neither write to its arguments nor look at other filters. Shapes: → (H,)."""


class Weigher(Protocol):
    """Rates the hosts that passed. Built-in ones get ``factors`` from ``weighers.base``.

    ``only_where_placed`` (may be absent: False): placing a server of the request changes the rating of nobody but the
    host that took it, and no multiplier at all.
    ``minimum`` / ``maximum``: fixed ends of the scale; None takes the smallest / largest rating of the request.
    """

    @property
    def minimum(self) -> float | None: ...
    @property
    def maximum(self) -> float | None: ...
    def factors(self, hosts: HostTable, rows: Rows) -> float | FloatArray:
        """Return what the scaled rating is multiplied with: one number, or one a host. Shapes: → () or (N,)."""

    def weigh(self, hosts: HostTable, spec: RequestSpec, rows: Rows) -> FloatArray | None:
        """Rate ``rows``, on any scale, more is more; None is "all the same to me". Shapes: → (N,)."""


def rule_name(rule: object) -> str:
    """Return the class name an operator configures a rule by; adapters carry the name of what they adapt."""
    return str(getattr(rule, "name", type(rule).__name__))
