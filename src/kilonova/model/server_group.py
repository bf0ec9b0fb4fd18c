# SPDX-License-Identifier: Apache-2.0
"""Server groups with affinity or anti-affinity policies."""

from collections.abc import Mapping
from dataclasses import field, replace
from datetime import datetime

from kilonova.records import dataclass

POLICIES = ("affinity", "anti-affinity", "soft-affinity", "soft-anti-affinity")


@dataclass(frozen=True, slots=True)
class ServerGroup:
    """A server group. ``members``: uuids of the member servers that still exist."""

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
    """A server group at the time of a scheduling decision. ``hosts``: service host name → number of members there."""

    uuid: str
    policy: str
    max_server_per_host: int = 1
    hosts: Mapping[str, int] = field(default_factory=dict)
    members: frozenset[str] = frozenset()

    def with_members(self, host: str, count: int = 1) -> "GroupView":
        """Return the group with ``count`` more members on a host; a negative ``count`` subtracts members."""
        hosts = {**self.hosts, host: self.hosts.get(host, 0) + count}
        if not hosts[host]:
            del hosts[host]
        return replace(self, hosts=hosts)
