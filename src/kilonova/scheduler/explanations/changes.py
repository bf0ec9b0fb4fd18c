# SPDX-License-Identifier: Apache-2.0
"""Changes of a request or a host that could make the request fit.

A change can be applied to a request or to rows of a host table. Each change has a size, so that changes of all kinds
can be compared. The size of a changed amount is the difference divided by the requested amount. The size is 1 for a
switch (another value, an added trait, an enabled service), 2 for a dropped condition, and n for n servers that are
moved off a host.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from kilonova.model.request_spec import RequestSpec
from kilonova.records import dataclass
from kilonova.scheduler.host_table import BoolArray, HostTable

SWITCH = 1.0
GIVE_UP = 2.0
#: Values of ``Change.family`` whose changes apply to all nodes of a service host.
OF_SERVICE_HOST = frozenset({"service", "aggregates"})


@dataclass(frozen=True, slots=True)
class Change:
    """One change of the request (``on_request``) or of a host (``on_hosts``).

    ``host``, ``node``: the host that is changed; None until a host is chosen.
    ``kind``, ``name``: the changed property. ``old``, ``new``: its values before and after; None means absent.
    ``family``: name of related changes; some hosts pass a rule only after several changes of one family.
    """

    kind: str
    text: str
    size: float
    name: str = ""
    old: str | int | None = None
    new: str | int | None = None
    family: str = ""
    on_request: Callable[[RequestSpec], RequestSpec] | None = None
    on_hosts: Callable[[HostTable, BoolArray], HostTable] | None = None
    host: str | None = None
    node: str | None = None

    def apply(self, hosts: HostTable, spec: RequestSpec, rows: BoolArray) -> tuple[HostTable, RequestSpec]:
        """Return the host table and the request after the change. ``rows``: (H,) mask of the hosts to change."""
        if self.on_request is not None:
            spec = self.on_request(spec)
        if self.on_hosts is not None:
            hosts = self.on_hosts(hosts, rows)
        return hosts, spec

    def at(self, host: str, node: str) -> "Change":
        """Return the change for one host; a change of the request or of aggregate metadata is returned unchanged."""
        if self.on_hosts is None or self.kind == "metadata":
            return self
        return replace(self, host=host, node=node, text=self.text.format(host=host))


def apply_changes(hosts: HostTable, spec: RequestSpec, changes: Sequence[Change]) -> tuple[HostTable, RequestSpec]:
    """Return the host table and the request after all ``changes``; a change of a host applies to its ``host`` only."""
    for change in changes:
        node = None if change.family in OF_SERVICE_HOST else change.node
        no_hosts = np.zeros(len(hosts), dtype=np.bool_)
        rows = no_hosts if change.host is None else hosts.rows_named(change.host, node)
        hosts, spec = change.apply(hosts, spec, rows)
    return hosts, spec
