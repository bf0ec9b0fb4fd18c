# SPDX-License-Identifier: Apache-2.0
"""Security groups and their rules in the fake Neutron."""

from collections.abc import Mapping
from ipaddress import ip_network
from typing import Any

from kilonova.errors import Conflict, InvalidRequest
from support.fake_neutron.store import SERVICE_USER, Store, Stored, User

_NUMBERS = {"1": "icmp", "6": "tcp", "17": "udp"}


def ensure_default(store: Store, project_id: str) -> Stored:
    """Return the default group of a project; it is made at the first request about groups or ports."""
    for group in store.where("security-groups", name="default", project_id=project_id):
        return group
    values = {"name": "default", "description": "Default security group", "project_id": project_id}
    group = _add_group(store, SERVICE_USER, values)
    for version in ("IPv4", "IPv6"):
        rule = {"security_group_id": group["id"], "direction": "ingress", "ethertype": version}
        _add_rule(store, group, {**rule, "remote_group_id": group["id"]})
    return group


def create_group(store: Store, user: User, values: Mapping[str, Any]) -> Stored:
    if values.get("name") == "default":
        raise Conflict("Default security group already exists.")
    ensure_default(store, values.get("project_id") or user.project_id)
    return _add_group(store, user, values)


def _add_group(store: Store, user: User, values: Mapping[str, Any]) -> Stored:
    defaults = {"name": "", "description": "", "stateful": True, "shared": False, "security_group_rules": []}
    group = store.add("security-groups", user, values, **defaults)
    for version in ("IPv4", "IPv6"):
        _add_rule(store, group, {"security_group_id": group["id"], "direction": "egress", "ethertype": version})
    return group


def update_group(group: Stored, values: Mapping[str, Any]) -> None:
    if group["name"] == "default" and "name" in values:
        raise Conflict("Updating default security group not allowed.")
    group.update(values)


def delete_group(store: Store, user: User, group: Stored) -> None:
    if group["name"] == "default" and not user.is_admin:
        raise Conflict("Insufficient rights for removing default security group.")
    if any(group["id"] in port["security_groups"] for port in store["ports"].values()):
        raise Conflict(f"Security Group {group['id']} in use.")
    for rule in group["security_group_rules"]:
        del store["security-group-rules"][rule["id"]]
    del store["security-groups"][group["id"]]


def create_rule(store: Store, user: User, values: Mapping[str, Any]) -> Stored:
    group = store.owned("security-groups", values["security_group_id"], user, "create")
    low, high = values.get("port_range_min"), values.get("port_range_max")
    if low is not None and high is not None and low > high and values.get("protocol") in {"tcp", "udp", "6", "17"}:
        raise InvalidRequest("For TCP/UDP protocols, port_range_min must be <= port_range_max")
    if values.get("remote_ip_prefix") is not None:
        _require_network(values["remote_ip_prefix"])
    return _add_rule(store, group, values)


def _require_network(text: str) -> None:
    try:
        ip_network(text, strict=False)
    except ValueError:
        raise InvalidRequest(f"Invalid input for operation: '{text}' is not a valid CIDR.") from None


def _add_rule(store: Store, group: Stored, values: Mapping[str, Any]) -> Stored:
    protocol = values.get("protocol")
    wanted = {
        "description": "",
        "direction": "ingress",
        "ethertype": "IPv4",
        "port_range_min": None,
        "port_range_max": None,
        "remote_ip_prefix": None,
        "remote_group_id": None,
        "remote_address_group_id": None,
        **values,
        "protocol": _NUMBERS.get(str(protocol), protocol and str(protocol).lower()),
        "project_id": group["project_id"],
    }
    for rule in group["security_group_rules"]:
        if all(rule.get(key) == value for key, value in wanted.items() if key not in {"description", "tenant_id"}):
            raise Conflict(f"Security group rule already exists. Rule id is {rule['id']}.")
    stored = store.add("security-group-rules", SERVICE_USER, wanted)
    group["security_group_rules"].append(stored)
    return stored


def delete_rule(store: Store, rule: Stored) -> None:
    store["security-groups"][rule["security_group_id"]]["security_group_rules"].remove(rule)
    del store["security-group-rules"][rule["id"]]
