# SPDX-License-Identifier: Apache-2.0
"""Server groups with their members on each host, as in the database and with pending claims added."""

from dataclasses import replace

from kilonova.db.change_log.changes import LoggedGroup
from kilonova.model.server_group import GroupView


class Groups:
    """Server groups by uuid. The caller must hold the mirror's lock."""

    def __init__(self) -> None:
        self._confirmed: dict[str, GroupView] = {}
        #: Group uuid → host → number of members assumed there; no entry for zero.
        self._assumed: dict[str, dict[str, int]] = {}

    def clear(self) -> None:
        """Drop the state from the database; assumed members stay."""
        self._confirmed.clear()

    def set(self, uuid: str, value: LoggedGroup | None) -> None:
        """Store a group from its change log value."""
        if value is None:
            self._confirmed.pop(uuid, None)
        else:
            # A moving member of an affinity group counts on two hosts; new members must go to the group's host only.
            hosts = {name: count for name, count in value.hosts.items() if value.host in {None, name}}
            self._confirmed[uuid] = GroupView(uuid, value.policy, value.max, hosts)

    def assume(self, uuid: str, host: str, members: int) -> None:
        """Add members assumed by claims on a host; a negative number removes them."""
        hosts = self._assumed.setdefault(uuid, {})
        hosts[host] = hosts.get(host, 0) + members
        if not hosts[host]:
            del hosts[host]
        if not hosts:
            del self._assumed[uuid]

    def find(self, uuid: str) -> GroupView | None:
        """Return a group with its members on each host, assumed members included; None if unknown."""
        group, assumed = self._confirmed.get(uuid), self._assumed.get(uuid)
        if group is None or assumed is None:
            return group
        more = {host: group.hosts.get(host, 0) + members for host, members in assumed.items()}
        return replace(group, hosts={**group.hosts, **more})
