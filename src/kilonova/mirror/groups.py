# SPDX-License-Identifier: Apache-2.0
"""Server groups with their members on each host: what the database holds, and on top the claims under way."""

from dataclasses import replace

from kilonova.db.change_log.changes import LoggedGroup
from kilonova.model.server_group import GroupView


class Groups:
    """Not for use without the mirror's lock."""

    def __init__(self) -> None:
        self._confirmed: dict[str, GroupView] = {}
        #: Group uuid → host → members, only where there are any.
        self._assumed: dict[str, dict[str, int]] = {}

    def clear(self) -> None:
        """Forget what the database holds; what is assumed stays."""
        self._confirmed.clear()

    def set(self, uuid: str, value: LoggedGroup | None) -> None:
        """Take over a group from its logged value."""
        if value is None:
            self._confirmed.pop(uuid, None)
        else:
            # A member of an affinity group that moves counts on two hosts; all that come later go to the one host.
            hosts = {name: count for name, count in value.hosts.items() if value.host in {None, name}}
            self._confirmed[uuid] = GroupView(uuid, value.policy, value.max, hosts)

    def assume(self, uuid: str, host: str, members: int) -> None:
        """Add members that claims expect on a host, or with a negative number take them back."""
        hosts = self._assumed.setdefault(uuid, {})
        hosts[host] = hosts.get(host, 0) + members
        if not hosts[host]:
            del hosts[host]
        if not hosts:
            del self._assumed[uuid]

    def find(self, uuid: str) -> GroupView | None:
        """Return a group, assumed members included."""
        group, assumed = self._confirmed.get(uuid), self._assumed.get(uuid)
        if group is None or assumed is None:
            return group
        more = {host: group.hosts.get(host, 0) + members for host, members in assumed.items()}
        return replace(group, hosts={**group.hosts, **more})
