# SPDX-License-Identifier: Apache-2.0
"""Floating addresses in the fake Neutron. Every network counts as connected to every external network."""

from collections.abc import Mapping
from typing import Any

from kilonova.errors import Conflict, InvalidRequest
from support.fake_neutron import addresses
from support.fake_neutron.store import SERVICE_USER, Store, Stored, User


def create_floating(store: Store, user: User, values: Mapping[str, Any]) -> Stored:
    network = store.get("networks", values["floating_network_id"], user)
    if not network["router:external"]:
        raise InvalidRequest(f"Bad floatingip request: Network {network['id']} is not a valid external network.")
    wanted = values.get("floating_ip_address")
    fixed = addresses.choose(store, network, [{"ip_address": wanted}] if wanted else [{}], "fa:16:3e:00:00:00")
    port = {
        "network_id": network["id"],
        "fixed_ips": fixed,
        "device_owner": "network:floatingip",
        "project_id": "",
        "security_groups": [],
    }
    inner = store.add("ports", SERVICE_USER, port, device_id="", mac_address="", name="", status="N/A")
    floating = store.add(
        "floatingips",
        user,
        {key: value for key, value in values.items() if key not in {"port_id", "fixed_ip_address"}},
        floating_ip_address=fixed[0]["ip_address"],
        port_id=None,
        fixed_ip_address=None,
        router_id=None,
        status="DOWN",
        description="",
        _port=inner["id"],
    )
    inner["project_id"] = inner["tenant_id"] = ""
    try:
        associate(store, user, floating, values)
    except Exception:
        delete_floating(store, floating)
        raise
    return floating


def associate(store: Store, user: User, floating: Stored, values: Mapping[str, Any]) -> None:
    """Connect the floating address to a port's fixed address, or to none."""
    floating.update({key: values[key] for key in ("description",) if key in values})
    port_id = values.get("port_id")
    if "port_id" not in values:
        return
    if port_id is None:
        floating.update(port_id=None, fixed_ip_address=None, router_id=None, status="DOWN", port_details=None)
        return
    port = store.get("ports", port_id, user)
    own = [fixed["ip_address"] for fixed in port["fixed_ips"] if ":" not in fixed["ip_address"]]
    wanted = values.get("fixed_ip_address")
    if wanted is not None and wanted not in own:
        raise InvalidRequest(f"Bad floatingip request: Port {port_id} does not have fixed ip {wanted}.")
    if not own:
        raise InvalidRequest(
            f"Bad floatingip request: Cannot add floating IP to port {port_id} that has no fixed IPv4 addresses."
        )
    fixed = wanted or own[0]
    for other in store.where("floatingips", port_id=port_id, fixed_ip_address=fixed):
        if other is not floating:
            raise Conflict(
                f"Cannot associate floating IP {floating['floating_ip_address']} ({floating['id']}) with port "
                f"{port_id} using fixed IP {fixed}, as that fixed IP already has a floating IP on external network "
                f"{floating['floating_network_id']}."
            )
    floating.update(port_id=port_id, fixed_ip_address=fixed, router_id="router", status="ACTIVE")


def delete_floating(store: Store, floating: Stored) -> None:
    store["ports"].pop(floating["_port"], None)
    del store["floatingips"][floating["id"]]


def release_port(store: Store, port_id: str) -> None:
    """Disconnect the floating addresses of a deleted port."""
    for floating in store.where("floatingips", port_id=port_id):
        floating.update(port_id=None, fixed_ip_address=None, router_id=None, status="DOWN")
