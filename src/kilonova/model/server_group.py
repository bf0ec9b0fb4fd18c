# SPDX-License-Identifier: Apache-2.0
"""Server groups: servers that belong together, or apart."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

POLICIES = ("affinity", "anti-affinity", "soft-affinity", "soft-anti-affinity")


@dataclass(frozen=True, slots=True)
class ServerGroup:
    """A server group; ``members`` are the uuids of servers that still exist."""

    uuid: str
    name: str
    policy: str
    project_id: str
    user_id: str
    max_server_per_host: int = 1
    has_rules: bool = False
    members: tuple[str, ...] = ()
    created_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class GroupView:
    """A group as one decision sees it: which hosts hold how many members at that moment.

    ``hosts``: service host name → members on it.
    """

    uuid: str
    policy: str
    max_server_per_host: int = 1
    hosts: Mapping[str, int] = field(default_factory=dict)
    members: frozenset[str] = frozenset()

    def with_members(self, host: str, count: int = 1) -> "GroupView":
        """Return the group with so many members more on a host, fewer with a negative ``count``."""
        hosts = {**self.hosts, host: self.hosts.get(host, 0) + count}
        if not hosts[host]:
            del hosts[host]
        return replace(self, hosts=hosts)
