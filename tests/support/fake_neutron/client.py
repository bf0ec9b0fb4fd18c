# SPDX-License-Identifier: Apache-2.0
"""The NetworkClient of the fake Neutron."""

import threading
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

from kilonova.errors import ConcurrentUpdate, Forbidden, KilonovaError, NotFound, OverQuota, Unavailable
from support.fake_neutron import floating, networks, security
from support.fake_neutron.faults import Fault, Faults, error_of
from support.fake_neutron.ports import Ports
from support.fake_neutron.qos import Guarantee
from support.fake_neutron.store import SERVICE_USER, SINGULAR, Store, Stored, User, shown

#: Kinds of resources that have quotas, by their names in ``/quotas``.
_QUOTAS = {
    "port": "ports",
    "network": "networks",
    "floatingip": "floatingips",
    "security_group": "security-groups",
    "security_group_rule": "security-group-rules",
}
_EXTENSIONS = (
    "auto-allocated-topology",
    "binding",
    "binding-extended",
    "external-net",
    "ip_allocation",
    "multi-provider",
    "port-resource-request",
    "port-resource-request-groups",
    "port-security",
    "provider",
    "qos",
    "quota_details",
    "router",
    "security-group",
    "segment",
)


class FakeNeutron:
    """Neutron v2.0 in memory. It is safe for threads, and never waits.

    ``plugs_at_once``: a bound port is ACTIVE at once; else it is DOWN until ``plug``. ``extensions``: aliases beside
    the usual ones, such as ``dns-integration``. ``events``: the events that Neutron would send to Nova;
    ``send_events``: called with each of them after the change, without a lock. ``faults``: planned faults, and the
    record of calls. ``before_call``: called before each call with its name, without a lock, to interleave others.
    Requests without a token are those of the service user, an administrator.
    """

    def __init__(
        self,
        *,
        plugs_at_once: bool = True,
        extensions: Sequence[str] = (),
        send_events: Callable[[Mapping[str, str]], None] | None = None,
    ) -> None:
        self.store = Store()
        self.ports = Ports(self.store, plugs_at_once)
        self.extensions = (*_EXTENSIONS, *extensions)
        self.faults = Faults()
        self.limits: dict[tuple[str, str], int] = {}
        self.events: list[dict[str, str]] = []
        self.send_events = send_events
        self.before_call: Callable[[str], None] | None = None
        self._users: dict[str, User] = {}
        self._unsent: list[dict[str, str]] = []
        self._lock = threading.RLock()

    # Set-up by tests

    def user(self, token: str, project_id: str, *, is_admin: bool = False) -> None:
        """Register a token."""
        self._users[token] = User(project_id, is_admin)

    def make_network(
        self,
        name: str = "private",
        project_id: str = "demo",
        *,
        v4: str | None = "10.1.0.0/24",
        v6: str | None = None,
        v6_mode: str = "slaac",
        **attributes: Any,
    ) -> str:
        """Create a network with a subnet for each family that is given; return its id."""
        network = self._made("networks", {"name": name, "project_id": project_id, **attributes})
        subnet = {"network_id": network["id"], "project_id": project_id}
        if v4:
            self._made("subnets", {**subnet, "name": f"{name}-v4", "cidr": v4})
        if v6:
            modes = {"ipv6_address_mode": v6_mode, "ipv6_ra_mode": v6_mode}
            self._made("subnets", {**subnet, "name": f"{name}-v6", "cidr": v6, **modes})
        return str(network["id"])

    def make_dual_stack(self, name: str = "private", project_id: str = "demo", **attributes: Any) -> str:
        """Create a network with an IPv4 subnet and an IPv6 subnet with SLAAC; return its id."""
        return self.make_network(name, project_id, v6="fd00:1::/64", **attributes)

    def make_external(self, name: str = "public", v4: str = "172.24.4.0/24") -> str:
        """Create the default external network; return its id."""
        return self.make_network(name, "admin", v4=v4, is_default=True, **{"router:external": True})

    def make_port(self, network_id: str, project_id: str = "demo", **attributes: Any) -> str:
        """Create a port of a user; return its id."""
        return str(self._made("ports", {"network_id": network_id, "project_id": project_id, **attributes})["id"])

    def make_policy(self, *, egress: int = 0, ingress: int = 0, packets: int = 0) -> str:
        """Create a QoS policy with guarantees, for the attribute ``qos_policy_id`` of ports and networks."""
        policy = str(uuid4())
        self.ports.guarantees[policy] = Guarantee(egress, ingress, packets)
        return policy

    def set_quota(self, project_id: str, **limits: int) -> None:
        """Set limits of a project by resource, such as ``port=10``."""
        self.limits |= {(project_id, resource): limit for resource, limit in limits.items()}

    def plug(self, port_id: str, *, plugged: bool = True) -> None:
        """Report a port as plugged or unplugged on its host."""
        with self._lock:
            port = self.store.get("ports", port_id)
            self.ports.plug(port, plugged=plugged)
            self._note("network-vif-plugged" if plugged else "network-vif-unplugged", port, status="completed")
        self._send()

    def port(self, port_id: str) -> Stored:
        """Return a port with all attributes, without recording a call."""
        return self.ports.show(SERVICE_USER, deepcopy(self.store.get("ports", port_id)))

    def ports_of(self, device_id: str) -> list[Stored]:
        """Return the ports of a server, without recording a call."""
        return [self.port(each["id"]) for each in self.store.where("ports", device_id=device_id)]

    # NetworkClient

    def list(self, kind: str, *, token: str | None = None, **filters: object) -> Sequence[Stored]:
        return self._carry_out("GET", kind, token, lambda user: self._list(kind, user, filters))

    def show(self, kind: str, resource_id: str, *, token: str | None = None) -> Stored:
        def show(user: User) -> Stored:
            return self._shown(kind, self.store.get(kind, resource_id, user), user)

        return self._carry_out("GET", f"{kind}/", token, show)

    def create(self, kind: str, values: Mapping[str, Any], *, token: str | None = None) -> Stored:
        return self._carry_out("POST", kind, token, lambda user: self._create(kind, user, deepcopy(dict(values))))

    def update(
        self,
        kind: str,
        resource_id: str,
        values: Mapping[str, Any],
        *,
        token: str | None = None,
        revision: int | None = None,
    ) -> Stored:
        def update(user: User) -> Stored:
            found = self.store.get(kind, resource_id, user) if revision is not None else {}
            if revision is not None and found["revision_number"] != revision:
                raise ConcurrentUpdate(f"Constrained to {revision}, but current revision is {found['revision_number']}")
            return self._update(kind, resource_id, user, deepcopy(dict(values)))

        return self._carry_out("PUT", kind, token, update)

    def delete(self, kind: str, resource_id: str, *, token: str | None = None) -> None:
        self._carry_out("DELETE", kind, token, lambda user: self._delete(kind, resource_id, user))

    def call(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, token: str | None = None
    ) -> Stored:
        parts = urlsplit(path)
        kind, *rest = parts.path.strip("/").split("/")
        named = "/".join([kind, *(rest[1:2] + rest[3:])])
        query = parse_qs(parts.query)
        return self._carry_out(
            method, named, token, lambda user: self._call(method, kind, tuple(rest), query, body or {}, user)
        )

    # Implementation

    def _carry_out(self, method: str, named: str, token: str | None, work: Callable[[User], Any]) -> Any:
        if self.before_call is not None:
            self.before_call(f"{method} {named}")
        with self._lock:
            fault = self.faults.take(f"{method} {named}")
            if fault is not None and (error := error_of(fault)):
                raise error
            if token is not None and token not in self._users:
                raise Unavailable("The request you have made requires authentication.")
            user = SERVICE_USER if token is None else self._users[token]
            answer = deepcopy(work(user))
            if fault is Fault.TWICE:
                answer = deepcopy(work(user))
        self._send()
        if fault is Fault.LATE:
            raise Unavailable("The network service cannot be reached.")
        return answer

    def _list(self, kind: str, user: User, filters: Mapping[str, object]) -> Sequence[Stored]:
        if kind == "extensions":
            return [{"alias": alias, "name": alias} for alias in self.extensions]
        if kind in {"security-groups", "ports"}:
            security.ensure_default(self.store, user.project_id)
        conditions = {key: value for key, value in filters.items() if key != "fields"}
        found = self.store.matching(kind, user, conditions)
        return [self._shown(kind, each, user, filters.get("fields", ())) for each in found]

    def _page(self, kind: str, user: User, query: dict[str, Sequence[str]]) -> Sequence[Stored]:
        """Return the resources that a query selects, in the order of ids if it asks for this order."""
        limit, marker = int(query.pop("limit", ["0"])[0]), query.pop("marker", [""])[0]
        by_id = query.pop("sort_key", None) == ["id"]
        query.pop("sort_dir", None)
        if marker:
            self.store.get(kind, marker, user)
        fields = query.pop("fields", ())
        found = [*self._list(kind, user, query)]
        if by_id:
            found = [each for each in sorted(found, key=lambda each: str(each["id"])) if str(each["id"]) > marker]
        return [shown(each, fields) for each in found[: limit or None]]

    def _shown(self, kind: str, stored: Stored, user: User, fields: object = ()) -> Stored:
        if kind == "ports":
            return self.ports.show(user, stored, fields)
        return shown(self.store.as_seen(user, kind, stored), fields)

    def _create(self, kind: str, user: User, values: Stored) -> Stored:
        self._refuse_over_quota(kind, values.get("project_id") or user.project_id)
        match kind:
            case "networks":
                made = networks.create_network(self.store, user, values)
            case "subnets":
                made = networks.create_subnet(self.store, user, values)
            case "ports":
                made = self.ports.create(user, values)
                self._note("network-changed", made)
            case "security-groups":
                made = security.create_group(self.store, user, values)
            case "security-group-rules":
                made = security.create_rule(self.store, user, values)
            case "floatingips":
                made = floating.create_floating(self.store, user, values)
                self._note_floating(made)
            case _:
                made = self.store.add(kind, user, values)
        return self._shown(kind, made, user)

    def _create_all(self, user: User, wanted: Sequence[Mapping[str, Any]]) -> Sequence[Stored]:
        """Create ports; if one is refused, create none."""
        before, unsent = set(self.store["ports"]), self._unsent[:]
        try:
            return [self._create("ports", user, deepcopy(dict(values))) for values in wanted]
        except KilonovaError:
            for port_id in self.store["ports"].keys() - before:
                self.ports.delete(self.store.get("ports", port_id))
            self._unsent = unsent
            raise

    def _update(self, kind: str, resource_id: str, user: User, values: Stored) -> Stored:
        if kind == "quotas":
            self.set_quota(resource_id, **values)
            return self._quotas(resource_id)
        stored = self.store.owned(kind, resource_id, user, "update")
        match kind:
            case "ports":
                self._note("network-changed", stored)
                self.ports.update(user, stored, values)
                self._note("network-changed", stored)
            case "security-groups":
                security.update_group(stored, values)
            case "floatingips":
                self._note_floating(stored)
                floating.associate(self.store, user, stored, values)
                self._note_floating(stored)
            case _:
                stored.update(values)
        return self._shown(kind, stored, user)

    def _delete(self, kind: str, resource_id: str, user: User) -> None:
        stored = self.store.owned(kind, resource_id, user, "delete")
        match kind:
            case "networks":
                networks.delete_network(self.store, stored)
            case "subnets":
                networks.delete_subnet(self.store, stored)
            case "ports":
                self.ports.delete(stored)
                self._note("network-vif-deleted", stored)
            case "security-groups":
                security.delete_group(self.store, user, stored)
            case "security-group-rules":
                security.delete_rule(self.store, stored)
            case "floatingips":
                floating.delete_floating(self.store, stored)
                self._note_floating(stored)
            case _:
                del self.store[kind][resource_id]

    def _call(
        self,
        method: str,
        kind: str,
        rest: tuple[str, ...],
        query: Mapping[str, Sequence[str]],
        body: Mapping[str, Any],
        user: User,
    ) -> Stored:
        if kind == "ports" and rest[1:2] == ("bindings",):
            return self.ports.call(user, method, self.store.get("ports", rest[0], user), rest[2:], body)
        if kind == "routers" and rest[1:] == ("add_router_interface",):
            return {"id": rest[0], **body}
        if kind == "auto-allocated-topology" and method == "GET":
            made = networks.auto_topology(self.store, rest[0], dry_run="dry-run" in query.get("fields", []))
            return {"auto_allocated_topology": made}
        if kind == "quotas" and method == "GET":
            if not user.is_admin and rest[0] != user.project_id:
                raise Forbidden("(rule:get_quota) is disallowed by policy")
            return {"quota": self._details(rest[0]) if rest[1:] else self._quotas(rest[0])}
        if method == "POST" and kind == "ports" and not rest:
            return {"ports": self._create_all(user, body["ports"])}
        if method == "GET" and kind in SINGULAR and not rest:
            return {kind.replace("-", "_"): self._page(kind, user, dict(query))}
        raise NotFound("The resource could not be found.")

    def _quotas(self, project_id: str) -> Stored:
        return {resource: self.limits.get((project_id, resource), -1) for resource in _QUOTAS}

    def _details(self, project_id: str) -> Stored:
        limits = self._quotas(project_id)
        return {
            resource: {"limit": limits[resource], "used": self._used(kind, project_id), "reserved": 0}
            for resource, kind in _QUOTAS.items()
        }

    def _used(self, kind: str, project_id: str) -> int:
        return len(self.store.where(kind, project_id=project_id))

    def _refuse_over_quota(self, kind: str, project_id: str) -> None:
        for resource, limited in _QUOTAS.items():
            limit = self.limits.get((project_id, resource), -1)
            if limited == kind and 0 <= limit <= self._used(kind, project_id):
                raise OverQuota(f"Quota exceeded for resources: ['{resource}'].", type="OverQuota")

    def _made(self, kind: str, values: Mapping[str, Any]) -> Stored:
        with self._lock:
            made = deepcopy(self._create(kind, SERVICE_USER, dict(values)))
        self._send()
        return made

    def _note_floating(self, stored: Stored) -> None:
        port = self.store["ports"].get(stored["port_id"]) if stored["port_id"] else None
        if port is not None:
            self._note("network-changed", port)

    def _note(self, name: str, port: Stored, **more: str) -> None:
        """Record an event about a server's port."""
        if port["device_owner"].startswith("compute:") and port["device_id"]:
            event = {"name": name, "server_uuid": port["device_id"], "tag": port["id"], **more}
            if event not in self._unsent:
                self._unsent.append(event)

    def _send(self) -> None:
        with self._lock:
            unsent, self._unsent = self._unsent, []
            self.events += unsent
        for event in unsent if self.send_events else ():
            self.send_events(event)
