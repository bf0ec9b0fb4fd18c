# SPDX-License-Identifier: Apache-2.0
"""Server groups with the number of members on each host: the members in the database plus those of pending claims."""

from dataclasses import replace

from kilonova.db.change_log.changes import LoggedGroup
from kilonova.model.server_group import GroupView


class Groups:
    """Server groups by uuid. The caller must hold the mirror's lock."""

    def __init__(self) -> None:
        self._confirmed: dict[str, GroupView] = {}
        #: Group uuid → host → number of members that assumed claims place on the host. A host with no such member has
        #: no entry.
        self._assumed: dict[str, dict[str, int]] = {}

    def clear(self) -> None:
        """Remove the values that came from the database, and keep the assumed members."""
        self._confirmed.clear()

    def set(self, uuid: str, value: LoggedGroup | None) -> None:
        """Store a group from its change log value."""
        if value is None:
            self._confirmed.pop(uuid, None)
        else:
            # A member that is being moved is counted on two hosts. New members of an affinity group may only be placed
            # on the host of the group (``value.host``), so other hosts are left out.
            hosts = {name: count for name, count in value.hosts.items() if value.host in {None, name}}
            self._confirmed[uuid] = GroupView(uuid, value.policy, value.max, hosts)

    def assume(self, uuid: str, host: str, members: int) -> None:
        """Add ``members``, which may be negative, to the number of assumed members of a group on a host."""
        hosts = self._assumed.setdefault(uuid, {})
        hosts[host] = hosts.get(host, 0) + members
        if not hosts[host]:
            del hosts[host]
        if not hosts:
            del self._assumed[uuid]

    def find(self, uuid: str) -> GroupView | None:
        """Return a group with its members on each host, assumed members included, or None if the group is unknown."""
        group, assumed = self._confirmed.get(uuid), self._assumed.get(uuid)
        if group is None or assumed is None:
            return group
        more = {host: group.hosts.get(host, 0) + members for host, members in assumed.items()}
        return replace(group, hosts={**group.hosts, **more})

    def all(self) -> dict[str, GroupView]:
        """Return all groups by uuid, as :meth:`find` returns each."""
        changed = {uuid: group for uuid in self._assumed if (group := self.find(uuid)) is not None}
        return {**self._confirmed, **changed}
