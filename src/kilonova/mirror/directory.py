# SPDX-License-Identifier: Apache-2.0
"""Index of availability zones, hosts and nodes by the names that requests use."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import field

from kilonova.mirror.host_columns import HostColumns
from kilonova.records import dataclass


@dataclass(frozen=True, slots=True)
class HostDirectory:
    """Index of availability zones, hosts and nodes at one moment.

    ``zones``: zone → True if any host of the zone is enabled; the key None stands for the hosts without a zone.
    ``nodes_of_host``: host name in lower case → hypervisor hostnames; ``nodes``: all hypervisor hostnames.
    ``zone_of_host``: host → zone, for hosts that an aggregate puts into a zone.
    """

    zones: Mapping[str | None, bool]
    nodes_of_host: Mapping[str, frozenset[str]]
    nodes: frozenset[str]
    zone_of_host: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, columns: HostColumns, zone_of: Mapping[str, str]) -> "HostDirectory":
        """Build the index from the present columns. ``zone_of``: host → zone."""
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
        """Tell whether the host (case-insensitive) exists and has the node.

        None as ``host`` matches any host, and None as ``node`` any node.
        """
        if host is None:
            return node is None or node in self.nodes
        nodes = self.nodes_of_host.get(host.lower())
        return nodes is not None and (node is None or node in nodes)
