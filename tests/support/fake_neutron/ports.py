# SPDX-License-Identifier: Apache-2.0
"""Ports of the fake Neutron: addresses, security groups, and bindings to hosts."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kilonova.errors import Conflict, InvalidRequest, NotFound, Unavailable
from support.fake_neutron import addresses, floating, security
from support.fake_neutron.qos import Guarantee, resource_request
from support.fake_neutron.store import Store, Stored, User, forbidden, shown

_BINDING = ("binding:host_id", "binding:profile", "binding:vif_type", "binding:vif_details")
_OF_ADMINISTRATORS = (*_BINDING, "resource_request")
_DETAILS = {"port_filter": True, "ovs_hybrid_plug": False, "bridge_name": "br-int", "connectivity": "l2"}


@dataclass
class Ports:
    """Ports. ``plugs_at_once``: a bound port is ACTIVE at once; else it stays DOWN until ``FakeNeutron.plug``.

    ``unbindable``: hosts without a network agent, where a binding fails. ``vif_type``, ``details``: of new bindings.
    ``guarantees``: QoS policies by id. ``groups``: whether ports request resources in groups.
    """

    store: Store
    plugs_at_once: bool = True
    unbindable: set[str] = field(default_factory=set)
    vif_type: str = "ovs"
    details: Mapping[str, object] = field(default_factory=lambda: dict(_DETAILS))
    guarantees: dict[str, Guarantee] = field(default_factory=dict)
    groups: bool = True
    _macs: int = 0

    def create(self, user: User, values: Mapping[str, Any]) -> Stored:
        network = self.store.get("networks", values["network_id"], user)
        self._refuse_admin_attributes(user, "create", values)
        if not (user.is_admin or network["project_id"] == user.project_id or self.store.is_shared(network, user)):
            raise forbidden("create", "ports")
        mac = values.get("mac_address") or self._next_mac()
        self._refuse_used_mac(network, mac)
        project = values.get("project_id") or values.get("tenant_id") or user.project_id
        secure = values.get("port_security_enabled", network["port_security_enabled"])
        groups = self._groups(user, project, values.get("security_groups"), secure=secure)
        fixed = addresses.choose(self.store, network, values.get("fixed_ips"), mac)
        port = self.store.add(
            "ports",
            user,
            {**values, "mac_address": mac, "fixed_ips": fixed, "security_groups": groups},
            name="",
            admin_state_up=True,
            status="DOWN",
            device_id="",
            device_owner="",
            port_security_enabled=secure,
            allowed_address_pairs=[],
            dns_name="",
            ip_allocation="none" if values.get("fixed_ips") == [] else "immediate",
            qos_policy_id=None,
            description="",
            revision_number=1,
            _bindings={},
            **{"binding:host_id": "", "binding:profile": {}, "binding:vnic_type": "normal"},
        )
        self._bind(port)
        return port

    def update(self, user: User, port: Stored, values: Mapping[str, Any]) -> None:
        self._refuse_admin_attributes(user, "update", values)
        network = self.store["networks"][port["network_id"]]
        changes = dict(values)
        if "mac_address" in values and values["mac_address"] != port["mac_address"]:
            self._refuse_used_mac(network, values["mac_address"])
        if "security_groups" in values or "port_security_enabled" in values:
            secure = values.get("port_security_enabled", port["port_security_enabled"])
            groups = values.get("security_groups", port["security_groups"])
            changes["security_groups"] = self._groups(user, port["project_id"], groups, secure=secure)
        if "fixed_ips" in values:
            kept = port["fixed_ips"]
            port["fixed_ips"] = []
            try:
                mac = changes.get("mac_address", port["mac_address"])
                changes["fixed_ips"] = addresses.choose(self.store, network, values["fixed_ips"], mac)
            finally:
                port["fixed_ips"] = kept
        for attribute, empty in (("binding:host_id", ""), ("binding:profile", {})):
            if attribute in changes:
                changes[attribute] = changes[attribute] or empty
        moved = changes.get("binding:host_id", port["binding:host_id"]) != port["binding:host_id"]
        port.update(changes, revision_number=port["revision_number"] + 1)
        if moved:
            port["_bindings"] = {}
            self._bind(port)

    def delete(self, port: Stored) -> None:
        if port["device_owner"] == "network:floatingip":
            raise Conflict(
                f"Port {port['id']} cannot be deleted directly via the port API: has device owner network:floatingip."
            )
        floating.release_port(self.store, port["id"])
        del self.store["ports"][port["id"]]

    def show(self, user: User, port: Stored, fields: object = ()) -> Stored:
        """Return a port as this user sees it: attributes of bindings are for administrators."""
        network = self.store["networks"][port["network_id"]]
        derived = {
            "qos_network_policy_id": network.get("qos_policy_id"),
            "resource_request": resource_request(self.store, self.guarantees, port, groups=self.groups),
        }
        seen = shown({**port, **derived}, fields)
        return seen if user.is_admin else {key: value for key, value in seen.items() if key not in _OF_ADMINISTRATORS}

    def plug(self, port: Stored, *, plugged: bool = True) -> None:
        port["status"] = "ACTIVE" if plugged else "DOWN"

    def call(self, user: User, method: str, port: Stored, rest: tuple[str, ...], body: Mapping[str, Any]) -> Stored:
        """Carry out a request below ``/ports/{id}/bindings``."""
        if not user.is_admin:
            raise forbidden(method.lower(), "ports", "bindings")
        bindings: dict[str, Stored] = port["_bindings"]
        if method == "GET":
            return {"bindings": list(bindings.values())}
        host = rest[0] if rest else body["binding"]["host"]
        if method == "POST":
            if host in bindings:
                raise Conflict(f"Binding for port {port['id']} on host {host} already exists.")
            if host in self.unbindable:
                raise Unavailable("The network service answered 500.", status=500)
            asked = body["binding"]
            bindings[host] = self._binding(
                host, asked.get("vnic_type", "normal"), asked.get("profile") or {}, "INACTIVE"
            )
            return {"binding": bindings[host]}
        if host not in bindings:
            text = f"Binding for port {port['id']} for host {host} could not be found."
            raise NotFound(text, type="PortBindingNotFound")
        if method == "DELETE":
            del bindings[host]
            if host == port["binding:host_id"]:
                port["binding:host_id"] = ""
                self._bind(port)
            return {}
        if rest[1:] == ("activate",):
            self._activate(port, host)
        else:
            bindings[host].update(body["binding"])
        return {"binding": bindings[host]}

    def _activate(self, port: Stored, host: str) -> None:
        binding = port["_bindings"][host]
        if binding["status"] == "ACTIVE":
            raise Conflict(f"Binding for port {port['id']} on host {host} is already active.")
        for each in port["_bindings"].values():
            each["status"] = "INACTIVE"
        binding["status"] = "ACTIVE"
        port["binding:host_id"], port["binding:profile"] = host, binding["profile"]
        port["binding:vif_type"], port["binding:vif_details"] = binding["vif_type"], binding["vif_details"]

    def _bind(self, port: Stored) -> None:
        """Set the attributes that follow from ``binding:host_id``."""
        host = port["binding:host_id"]
        if not host:
            port.update({"binding:vif_type": "unbound", "binding:vif_details": {}, "status": "DOWN"})
            return
        binding = self._binding(host, port["binding:vnic_type"], port["binding:profile"], "ACTIVE")
        port["_bindings"][host] = binding
        port.update({"binding:vif_type": binding["vif_type"], "binding:vif_details": binding["vif_details"]})
        port["status"] = "ACTIVE" if self.plugs_at_once and host not in self.unbindable else "DOWN"

    def _binding(self, host: str, vnic_type: str, profile: Mapping[str, object], status: str) -> Stored:
        fails = host in self.unbindable
        return {
            "host": host,
            "vif_type": "binding_failed" if fails else self.vif_type,
            "vif_details": {} if fails else dict(self.details),
            "vnic_type": vnic_type,
            "profile": dict(profile),
            "status": status,
        }

    def _groups(self, user: User, project: str, wanted: list[str] | None, *, secure: bool) -> list[str]:
        if not secure:
            if wanted:
                raise Conflict("Port Security must be enabled in order to use security groups.")
            return []
        if wanted is None:
            return [security.ensure_default(self.store, project)["id"]]
        return [self.store.get("security-groups", each, user)["id"] for each in wanted]

    def _refuse_admin_attributes(self, user: User, action: str, values: Mapping[str, Any]) -> None:
        for attribute in _BINDING:
            if values.get(attribute) and not user.is_admin:
                raise forbidden(action, "ports", attribute)
        if "binding:vif_type" in values or "binding:vif_details" in values:
            raise InvalidRequest("Attribute 'binding:vif_type' not allowed in POST")

    def _refuse_used_mac(self, network: Stored, mac: str) -> None:
        if self.store.where("ports", network_id=network["id"], mac_address=mac):
            raise Conflict(
                f"Unable to complete operation for network {network['id']}. The mac address {mac} is in use.",
                type="MacAddressInUse",
            )

    def _next_mac(self) -> str:
        self._macs += 1
        return "fa:16:3e:{:02x}:{:02x}:{:02x}".format(*self._macs.to_bytes(3, "big"))
