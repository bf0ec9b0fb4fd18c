# SPDX-License-Identifier: Apache-2.0
"""Resources of the fake Neutron in memory: who sees which of them, and filters of lists."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from kilonova.errors import Forbidden, NotFound

#: A stored resource. Keys that begin with an underscore are never shown.
Stored = dict[str, Any]

SINGULAR = {
    "networks": "network",
    "subnets": "subnet",
    "ports": "port",
    "segments": "segment",
    "security-groups": "security_group",
    "security-group-rules": "security_group_rule",
    "floatingips": "floatingip",
    "rbac-policies": "rbac_policy",
    "routers": "router",
}
_MISSING = {
    "networks": "Network {} could not be found.",
    "subnets": "Subnet {} could not be found.",
    "ports": "Port {} could not be found.",
    "segments": "Segment {} could not be found.",
    "security-groups": "Security group {} does not exist",
    "security-group-rules": "Security group rule {} does not exist",
    "floatingips": "Floating IP {} could not be found",
    "rbac-policies": "RBAC policy of type network with ID {} not found",
    "routers": "Router {} could not be found",
}


@dataclass(frozen=True, slots=True)
class User:
    """The owner of a token."""

    project_id: str
    is_admin: bool = False


#: Kilonova's own user, whose requests have no token.
SERVICE_USER = User("service", is_admin=True)


@dataclass
class Store:
    """All resources: kind → id → resource."""

    tables: dict[str, dict[str, Stored]] = field(default_factory=lambda: {kind: {} for kind in SINGULAR})

    def __getitem__(self, kind: str) -> dict[str, Stored]:
        if kind not in self.tables:
            raise NotFound("The resource could not be found.")
        return self.tables[kind]

    def add(self, kind: str, user: User, values: Mapping[str, Any], **defaults: Any) -> Stored:
        """Store a new resource of the user's project, or of the project that an administrator names."""
        project = values.get("project_id") or values.get("tenant_id") or user.project_id
        if project != user.project_id and not user.is_admin:
            raise forbidden("create", kind)
        values = {key: value for key, value in values.items() if key not in {"project_id", "tenant_id"}}
        stored = {"id": str(uuid4()), **defaults, **values, "project_id": project, "tenant_id": project}
        self[kind][stored["id"]] = stored
        return stored

    def get(self, kind: str, resource_id: str, user: User = SERVICE_USER) -> Stored:
        """Return a resource that the user can see. Raises: NotFound."""
        found = self[kind].get(resource_id)
        if found is None or not self.sees(user, kind, found):
            name = SINGULAR[kind].title().replace("_", "")
            raise NotFound(_MISSING[kind].format(resource_id), type=f"{name}NotFound")
        return found

    def owned(self, kind: str, resource_id: str, user: User, action: str) -> Stored:
        """Return a resource that the user may change. Raises: NotFound, Forbidden."""
        found = self.get(kind, resource_id, user)
        if not user.is_admin and found["project_id"] != user.project_id:
            raise forbidden(action, kind)
        return found

    def where(self, kind: str, **values: Any) -> list[Stored]:
        """Return the resources with these values."""
        return [each for each in self[kind].values() if all(each.get(key) == value for key, value in values.items())]

    def sees(self, user: User, kind: str, resource: Stored) -> bool:
        """Whether a user can see a resource."""
        if user.is_admin or resource["project_id"] == user.project_id:
            return True
        if kind == "networks":
            return bool(resource["router:external"]) or self.is_shared(resource, user)
        return kind == "subnets" and self.is_shared(self["networks"][resource["network_id"]], user)

    def is_shared(self, network: Stored, user: User) -> bool:
        """Whether a user may create ports on a network of another project."""
        policies = self.where("rbac-policies", object_id=network["id"], action="access_as_shared")
        return bool(network["shared"]) or any(each["target_tenant"] in {user.project_id, "*"} for each in policies)

    def matching(self, kind: str, user: User, filters: Mapping[str, object]) -> Iterator[Stored]:
        """Yield the visible resources that match all filters, each of which has a value or several."""
        for each in list(self[kind].values()):
            seen = self.as_seen(user, kind, each)
            if self.sees(user, kind, each) and all(_matches(seen, key, value) for key, value in filters.items()):
                yield each

    def as_seen(self, user: User, kind: str, resource: Stored) -> Stored:
        """Return a resource with the attributes that depend on the user: networks are shared with some projects."""
        return {**resource, "shared": self.is_shared(resource, user)} if kind == "networks" else resource


def shown(resource: Stored, fields: object = ()) -> Stored:
    """Return a resource as the API shows it, with the named attributes only if there are names."""
    names = _values(fields)
    return {k: v for k, v in resource.items() if not k.startswith("_") and (not names or k in names)}


def forbidden(action: str, kind: str, attribute: str = "") -> Forbidden:
    rule = f"{action}_{SINGULAR[kind]}" + (f":{attribute}" if attribute else "")
    return Forbidden(f"(rule:{rule} and (rule:{rule})) is disallowed by policy")


def _matches(resource: Stored, key: str, wanted: object) -> bool:
    values = _values(wanted)
    if key == "fixed_ips":
        return any(_address_matches(fixed, values) for fixed in resource["fixed_ips"])
    found = resource.get(key)
    if isinstance(found, list):
        return any(each in found for each in values)
    return str(found).lower() in {each.lower() for each in values} if isinstance(found, bool) else str(found) in values


def _address_matches(fixed: Mapping[str, str], conditions: tuple[str, ...]) -> bool:
    """Whether an address meets conditions such as ``ip_address=10.0.0.3`` and ``subnet_id=…``."""
    wanted: dict[str, set[str]] = {}
    for condition in conditions:
        key, _, value = condition.partition("=")
        wanted.setdefault(key, set()).add(value)
    return all(fixed.get(key) in values for key, values in wanted.items())


def _values(value: object) -> tuple[str, ...]:
    if isinstance(value, list | tuple | set | frozenset):
        return tuple(str(each) for each in value)
    return (str(value),)
