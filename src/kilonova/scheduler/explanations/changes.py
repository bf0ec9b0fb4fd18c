# SPDX-License-Identifier: Apache-2.0
"""Changes of a request or a host that could make the request fit. Each change is a value that can be applied.

A change applies to a request or to rows of a host table. Its size makes changes of all kinds comparable: for an amount,
the changed fraction of the requested amount; 1 for a switch (another value, an added trait, an enabled service); 2 for
a dropped condition; n for n servers that are moved off a host.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kilonova.model.request_spec import RequestSpec
from kilonova.scheduler.host_table import BoolArray, HostTable

SWITCH = 1.0
GIVE_UP = 2.0
#: Families whose changes apply to all nodes of a service host.
OF_SERVICE_HOST = frozenset({"service", "aggregates"})


@dataclass(frozen=True, slots=True)
class Change:
    """One change of the request (``on_request``) or of a host (``on_hosts``).

    ``host``, ``node``: the host that is changed; None if not chosen yet.
    ``kind``, ``name``: the changed property. ``old``, ``new``: its values before and after; None means absent.
    ``family``: a rule may pass only after several changes of the same family.
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
        """Return copies of table and request with the change. ``rows``: the hosts to change. Shapes: (H,)."""
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
    """Return copies of table and request with all ``changes``, each applied to its own host."""
    for change in changes:
        node = None if change.family in OF_SERVICE_HOST else change.node
        nobody = np.zeros(len(hosts), dtype=np.bool_)
        rows = nobody if change.host is None else hosts.rows_named(change.host, node)
        hosts, spec = change.apply(hosts, spec, rows)
    return hosts, spec
