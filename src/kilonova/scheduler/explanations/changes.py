# SPDX-License-Identifier: Apache-2.0
"""A change of the request or of a host, as a value: something that could be done about a host that does not fit.

A change is small and concrete enough to be applied: to a request, or to rows of a table. Its size is relative, so that
changes of all kinds can be compared: an amount by which share of what was asked it changes; 1 for switching something
(another value, a trait more, a service enabled); 2 for giving a condition up; n for n servers that leave a host.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kilonova.model.request_spec import RequestSpec
from kilonova.scheduler.host_table import BoolArray, HostTable

SWITCH = 1.0
GIVE_UP = 2.0
#: Families whose changes are made to every hypervisor of a service host.
OF_SERVICE_HOST = frozenset({"service", "aggregates"})


@dataclass(frozen=True, slots=True)
class Change:
    """One change of the request, or of a host (``on_hosts``; ``host`` and ``node`` say of which, None is any).

    ``kind`` and ``name`` say what changes, ``old`` and ``new`` from what to what; None is "not there".
    ``family``: changes of one family may have to be made together before a rule is content.
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
        """Return table and request with the change made; ``rows`` are the hosts that it is made to. Shapes: (H,)."""
        if self.on_request is not None:
            spec = self.on_request(spec)
        if self.on_hosts is not None:
            hosts = self.on_hosts(hosts, rows)
        return hosts, spec

    def at(self, host: str, node: str) -> "Change":
        """Return the change with the name of its host; a change of the request or of an aggregate stays as it is."""
        if self.on_hosts is None or self.kind == "metadata":
            return self
        return replace(self, host=host, node=node, text=self.text.format(host=host))


def apply_changes(hosts: HostTable, spec: RequestSpec, changes: Sequence[Change]) -> tuple[HostTable, RequestSpec]:
    """Return cloud and request after changes, each made to the host that it names."""
    for change in changes:
        node = None if change.family in OF_SERVICE_HOST else change.node
        nobody = np.zeros(len(hosts), dtype=np.bool_)
        rows = nobody if change.host is None else hosts.rows_named(change.host, node)
        hosts, spec = change.apply(hosts, spec, rows)
    return hosts, spec
