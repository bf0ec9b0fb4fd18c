# SPDX-License-Identifier: Apache-2.0
"""Security groups of a server: those of its ports, changed with the rights of a user."""

from collections.abc import Callable, Sequence

from kilonova.errors import ConcurrentUpdate, Conflict, InvalidRequest, NotFound
from kilonova.network.client import NetworkClient, Resource
from kilonova.network.group_names import group_id
from kilonova.records import dataclass

_FIELDS = ("id", "security_groups", "port_security_enabled", "fixed_ips", "ip_allocation", "revision_number")
#: Maximum number of attempts to update a port if concurrent updates conflict.
_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class GroupChange:
    """A group that was added to ports of a server, or removed from them. ``ports``: ids of the changed ports."""

    name: str
    ports: frozenset[str]


def add_group(client: NetworkClient, token: str, project_id: str, server: str, wanted: str) -> GroupChange:
    """Add a group, named by name or id, to all ports of a server.

    Raises: NotFound for an unknown group, or a server without ports; Conflict for several groups of the name;
    InvalidRequest for a port that cannot have groups; with Nova's messages.
    """
    found, name = _find(client, token, project_id, wanted)
    ports = _ports(client, token, server)
    for port in ports:
        if not _takes_groups(port):
            raise InvalidRequest(
                "Network requires port_security_enabled and subnet associated in order to apply security groups."
            )
    changed = _change(client, token, server, ports, lambda groups: [*groups, *({found} - set(groups))])
    return GroupChange(name, changed)


def remove_group(client: NetworkClient, token: str, project_id: str, server: str, wanted: str) -> GroupChange:
    """Remove a group, named by name or id, from all ports of a server.

    Raises: NotFound for an unknown group, or if no port has it; Conflict for several groups of the name.
    """
    found, name = _find(client, token, project_id, wanted)
    ports = _ports(client, token, server)
    changed = _change(client, token, server, ports, lambda groups: [each for each in groups if each != found])
    if not changed:
        raise NotFound(f"Security group {wanted} not associated with the instance {server}")
    return GroupChange(name, changed)


def _find(client: NetworkClient, token: str, project_id: str, wanted: str) -> tuple[str, str]:
    """Return the id and the name of a group."""
    try:
        found = group_id(client, token, project_id, wanted)
    except NotFound:
        raise NotFound(f"Security group {wanted} is not found for project {project_id}") from None
    if found != wanted:
        return found, wanted
    for group in client.list("security-groups", token=token, id=[found], fields=("id", "name")):
        return found, group.get("name") or found
    return found, found


def _ports(client: NetworkClient, token: str, server: str) -> Sequence[Resource]:
    ports = client.list("ports", token=token, device_id=server, fields=_FIELDS)
    if not ports:
        raise NotFound(f"instance_id {server} could not be found as device id on any ports")
    return ports


def _takes_groups(port: Resource) -> bool:
    has_address = port.get("fixed_ips") or port.get("ip_allocation") == "deferred"
    return bool(has_address and port.get("port_security_enabled", True))


def _change(
    client: NetworkClient,
    token: str,
    server: str,
    ports: Sequence[Resource],
    groups_of: Callable[[Sequence[str]], list[str]],
) -> frozenset[str]:
    """Change the groups of ports; return the ids of the ports whose groups were different before.

    If another request changes a port at the same time, the ports are read again.
    """
    changed = set[str]()
    for _ in range(_ATTEMPTS):
        try:
            for port in ports:
                groups = groups_of(port.get("security_groups", ()))
                if groups != list(port.get("security_groups", ())):
                    revision = port.get("revision_number")
                    client.update("ports", port["id"], {"security_groups": groups}, token=token, revision=revision)
                    changed.add(port["id"])
        except ConcurrentUpdate:
            ports = _ports(client, token, server)
        else:
            return frozenset(changed)
    raise Conflict(f"The ports of instance {server} are being changed by other requests; try again.")
