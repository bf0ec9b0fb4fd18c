# SPDX-License-Identifier: Apache-2.0
"""Which zones, hosts and hypervisors there are, by the names that requests have for them: looked up, not searched."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kilonova.mirror.host_columns import HostColumns
from kilonova.model.aggregate import Aggregate


@dataclass(frozen=True, slots=True)
class HostDirectory:
    """``zones``: zone → whether any of its hosts is enabled; None stands for hosts that no aggregate puts into one.

    ``nodes_of_host``: host in lower case → hostnames of its hypervisors; ``nodes``: all of these.
    ``zone_of_host``: of the hosts that an aggregate puts into a zone.
    """

    zones: Mapping[str | None, bool]
    nodes_of_host: Mapping[str, frozenset[str]]
    nodes: frozenset[str]
    zone_of_host: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, columns: HostColumns, aggregates: Iterable[Aggregate]) -> "HostDirectory":
        """List what there is now."""
        zone_of = {
            host: each.availability_zone
            for each in aggregates
            if each.availability_zone is not None
            for host in each.hosts
        }
        zones: dict[str | None, bool] = {}
        for host, is_enabled in columns.services():
            zone = zone_of.get(host)
            zones[zone] = is_enabled or zones.get(zone, False)
        nodes: defaultdict[str, set[str]] = defaultdict(set)
        for host, node in columns.nodes():
            nodes[host.lower()].add(node)
        frozen = {host: frozenset(those) for host, those in nodes.items()}
        return cls(zones, frozen, frozenset().union(*frozen.values()), zone_of)

    def has(self, host: str | None, node: str | None) -> bool:
        """Tell whether there is such a host, in any case, with such a hypervisor; None is any."""
        if host is None:
            return node is None or node in self.nodes
        nodes = self.nodes_of_host.get(host.lower())
        return nodes is not None and (node is None or node in nodes)
