# SPDX-License-Identifier: Apache-2.0
"""Networks and subnets of the fake Neutron, and the topology that it makes for a project on request."""

from collections.abc import Mapping
from ipaddress import ip_address, ip_network
from typing import Any

from kilonova.errors import Conflict, InvalidRequest
from support.fake_neutron.store import SERVICE_USER, Store, Stored, User, forbidden

_MTU = 1442


def create_network(store: Store, user: User, values: Mapping[str, Any]) -> Stored:
    for attribute in ("shared", "router:external"):
        if values.get(attribute) and not user.is_admin:
            raise forbidden("create", "networks", attribute)
    defaults = {
        "name": "",
        "admin_state_up": True,
        "status": "ACTIVE",
        "shared": False,
        "router:external": False,
        "mtu": _MTU,
        "port_security_enabled": True,
        "subnets": [],
        "is_default": False,
        "dns_domain": "",
        "availability_zones": [],
        "provider:network_type": "geneve",
        "provider:physical_network": None,
        "provider:segmentation_id": 1 + len(store["networks"]),
    }
    return store.add("networks", user, values, **defaults)


def delete_network(store: Store, network: Stored) -> None:
    if any(not _is_of_service(port) for port in store.where("ports", network_id=network["id"])):
        raise Conflict(
            f"Unable to complete operation on network {network['id']}. "
            "There are one or more ports still in use on the network."
        )
    for kind in ("ports", "subnets"):
        for each in store.where(kind, network_id=network["id"]):
            del store[kind][each["id"]]
    del store["networks"][network["id"]]


def create_subnet(store: Store, user: User, values: Mapping[str, Any]) -> Stored:
    network = store.owned("networks", values["network_id"], user, "get")
    cidr = ip_network(values["cidr"])
    gateway = values.get("gateway_ip", str(cidr[1]))
    first, last = cidr[1], cidr[-2] if cidr.version == 4 else cidr[-1]
    defaults = {
        "name": "",
        "ip_version": cidr.version,
        "enable_dhcp": True,
        "dns_nameservers": [],
        "host_routes": [],
        "ipv6_address_mode": None,
        "ipv6_ra_mode": None,
        "segment_id": None,
        "service_types": [],
        "subnetpool_id": None,
        "allocation_pools": [{"start": str(first + (gateway == str(first))), "end": str(last)}],
    }
    if values.get("ip_version", cidr.version) != cidr.version:
        raise InvalidRequest(f"Invalid input for operation: The requested subnet has the wrong version: {cidr}.")
    stored = store.add("subnets", user, {**values, "gateway_ip": gateway}, **defaults)
    network["subnets"].append(stored["id"])
    return stored


def delete_subnet(store: Store, subnet: Stored) -> None:
    ports = store.where("ports", network_id=subnet["network_id"])
    here = [port for port in ports if any(fixed["subnet_id"] == subnet["id"] for fixed in port["fixed_ips"])]
    if any(not _is_of_service(port) for port in here):
        raise Conflict(
            f"Unable to complete operation on subnet {subnet['id']}: "
            "One or more ports have an IP allocation from this subnet."
        )
    store["networks"][subnet["network_id"]]["subnets"].remove(subnet["id"])
    del store["subnets"][subnet["id"]]


def auto_topology(store: Store, project_id: str, *, dry_run: bool) -> Stored:
    """Return the project's own topology; make it unless ``dry_run`` asks only whether that is possible."""
    external = [each for each in store.where("networks") if each["router:external"] and each["is_default"]]
    if not external:
        raise Conflict("Deployment error: No default router:external network.")
    if dry_run:
        return {"id": "dry-run=pass", "tenant_id": project_id}
    for network in store.where("networks", name="auto_allocated_network", project_id=project_id):
        return {"id": network["id"], "tenant_id": project_id}
    values = {"name": "auto_allocated_network", "project_id": project_id}
    network = create_network(store, SERVICE_USER, values)
    number = len(store.where("networks", name="auto_allocated_network"))
    subnet = {"network_id": network["id"], "cidr": f"10.200.{number}.0/24", "project_id": project_id}
    create_subnet(store, SERVICE_USER, subnet)
    return {"id": network["id"], "tenant_id": project_id}


def is_inside(address: str, subnet: Stored) -> bool:
    return ip_address(address) in ip_network(subnet["cidr"])


def _is_of_service(port: Stored) -> bool:
    """Whether Neutron owns the port itself, so that it does not keep a network in use."""
    return port["device_owner"].startswith("network:dhcp") or port["device_owner"] == "network:distributed"
