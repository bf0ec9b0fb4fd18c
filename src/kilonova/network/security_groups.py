# SPDX-License-Identifier: Apache-2.0
"""Security groups of the network service, with the rights of a user."""

from collections.abc import Iterable, Mapping

from kilonova.network.client import NetworkClient, Resource
from kilonova.network.security_group_rules import IngressRule, read_rules
from kilonova.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SecurityGroup:
    """A security group with its ingress rules."""

    id: str
    name: str
    project_id: str
    description: str | None = None
    rules: tuple[IngressRule, ...] = ()


def all_groups(client: NetworkClient, project_id: str | None = None, *, token: str) -> list[SecurityGroup]:
    """Return the groups of a project; None: all that the user can see. Sorted by project and name."""
    of_project = {} if project_id is None else {"project_id": project_id}
    found = map(read_group, client.list("security-groups", token=token, **of_project))
    return sorted(found, key=lambda group: (group.project_id, group.name, group.id))


def get_group(client: NetworkClient, group_id: str, *, token: str) -> SecurityGroup:
    """Return a group. Raises: NotFound."""
    return read_group(client.show("security-groups", group_id, token=token))


def create_group(client: NetworkClient, name: str, description: str, *, token: str) -> SecurityGroup:
    """Create a group in the user's project. Raises: InvalidRequest, OverQuota, Conflict."""
    return read_group(client.create("security-groups", {"name": name, "description": description}, token=token))


def update_group(client: NetworkClient, group_id: str, name: str, description: str, *, token: str) -> SecurityGroup:
    """Change name and description of a group. Raises: NotFound, InvalidRequest, Conflict for the default group."""
    values = {"name": name, "description": description}
    return read_group(client.update("security-groups", group_id, values, token=token))


def delete_group(client: NetworkClient, group_id: str, *, token: str) -> None:
    """Delete a group. Raises: NotFound; Conflict if a port has it, or if it is the default group."""
    client.delete("security-groups", group_id, token=token)


def source_groups(client: NetworkClient, groups: Iterable[SecurityGroup], *, token: str) -> Mapping[str, SecurityGroup]:
    """Return id → group for the source groups of all rules of ``groups``, as far as the user can see them."""
    known = {group.id: group for group in groups}
    named = {rule.source_group_id for group in known.values() for rule in group.rules if rule.source_group_id}
    missing = sorted(named - known.keys())
    if missing:
        found = client.list("security-groups", token=token, id=missing, fields=["id", "name", "project_id"])
        known |= {each["id"]: read_group(each) for each in found}
    return known


def read_group(found: Resource) -> SecurityGroup:
    """Convert a group."""
    return SecurityGroup(
        id=found["id"],
        name=found["name"],
        project_id=found["project_id"],
        description=found.get("description"),
        rules=read_rules(found.get("security_group_rules", ())),
    )
