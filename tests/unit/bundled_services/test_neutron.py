# SPDX-License-Identifier: Apache-2.0
"""The real Neutron with the simulated mechanism: what the compute service and users need of it."""

import uuid
from typing import Any

import pytest
import requests

from support.real_neutron import RealNeutron, real_neutron

__all__ = ["real_neutron"]
pytestmark = pytest.mark.slow


class Api:
    """Client in a project of its own."""

    def __init__(self, neutron: RealNeutron) -> None:
        self.url = f"{neutron.url}/v2.0"
        self.project = uuid.uuid4().hex

    def __call__(self, method: str, path: str, body: Any = None) -> Any:
        answer = requests.request(method, f"{self.url}/{path}", json=body, timeout=120)
        assert answer.ok, (method, path, answer.status_code, answer.text)
        return answer.json() if answer.content else None

    def create(self, kind: str, **values: Any) -> Any:
        name = kind.removesuffix("s").replace("-", "_")
        return self("POST", kind, {name: {"project_id": self.project, **values}})[name]


@pytest.fixture
def api(real_neutron: RealNeutron) -> Api:
    return Api(real_neutron)


@pytest.fixture
def network(api: Api) -> Any:
    network = api.create("networks", name="n")
    api.create("subnets", network_id=network["id"], ip_version=4, cidr="10.1.0.0/24")
    return network


def _bound_port(api: Api, network: Any, **values: Any) -> Any:
    place = {"device_id": str(uuid.uuid4()), "device_owner": "compute:nova", "binding:host_id": "node1"}
    return api.create("ports", network_id=network["id"], **place, **values)


def test_a_port_on_any_host_is_bound_and_active(api: Api, network: Any) -> None:
    port = _bound_port(api, network, dns_name="vm")
    assert port["binding:vif_type"] == "ovs"
    assert port["status"] == "ACTIVE"
    assert port["dns_assignment"][0]["fqdn"] == "vm.kilonova.internal."
    unbound = api("PUT", f"ports/{port['id']}", {"port": {"binding:host_id": ""}})["port"]
    assert unbound["status"] == "DOWN"


def test_a_port_moves_by_a_second_binding(api: Api, network: Any) -> None:
    port = f"ports/{_bound_port(api, network)['id']}"
    api("POST", f"{port}/bindings", {"binding": {"host": "node2", "vnic_type": "normal", "profile": {}}})
    api("PUT", f"{port}/bindings/node2/activate")
    api("DELETE", f"{port}/bindings/node1")
    moved = api("GET", port)["port"]
    assert (moved["binding:host_id"], moved["status"]) == ("node2", "ACTIVE")


def test_the_default_security_group_has_its_rules(api: Api, network: Any) -> None:
    (group,) = api("GET", f"security-groups?project_id={api.project}")["security_groups"]
    rules = {(rule["direction"], rule["ethertype"], rule["remote_group_id"]) for rule in group["security_group_rules"]}
    assert rules == {
        (direction, version, remote)
        for direction, remote in (("egress", None), ("ingress", group["id"]))
        for version in ("IPv4", "IPv6")
    }


def test_a_floating_address_is_active_while_it_is_associated(api: Api, network: Any) -> None:
    public = api.create("networks", **{"router:external": True})
    api.create("subnets", network_id=public["id"], ip_version=4, cidr="172.24.4.0/24", enable_dhcp=False)
    router = api.create("routers", external_gateway_info={"network_id": public["id"]})
    subnet = api("GET", f"subnets?network_id={network['id']}")["subnets"][0]["id"]
    api("PUT", f"routers/{router['id']}/add_router_interface", {"subnet_id": subnet})
    port = _bound_port(api, network)["id"]
    address = api.create("floatingips", floating_network_id=public["id"], port_id=port)
    assert address["status"] == api("GET", f"floatingips/{address['id']}")["floatingip"]["status"] == "ACTIVE"
    freed = api("PUT", f"floatingips/{address['id']}", {"floatingip": {"port_id": None}})["floatingip"]
    assert freed["status"] == "DOWN"


def test_a_minimum_bandwidth_is_a_resource_request_of_the_port(api: Api) -> None:
    policy = api("POST", "qos/policies", {"policy": {"name": "q", "project_id": api.project}})["policy"]["id"]
    rule = {"minimum_bandwidth_rule": {"min_kbps": 1000, "direction": "egress"}}
    api("POST", f"qos/policies/{policy}/minimum_bandwidth_rules", rule)
    provider = {"provider:network_type": "vlan", "provider:physical_network": "public"}
    network = api.create("networks", **provider, **{"provider:segmentation_id": 7})
    request = api.create("ports", network_id=network["id"], qos_policy_id=policy)["resource_request"]
    assert request["request_groups"][0]["resources"] == {"NET_BW_EGR_KILOBIT_PER_SEC": 1000}


def test_a_trunk_carries_the_networks_of_its_ports(api: Api, network: Any) -> None:
    parent, child, later = (api.create("ports", network_id=network["id"])["id"] for _ in range(3))
    sub_port = {"port_id": child, "segmentation_type": "vlan", "segmentation_id": 5}
    trunk = api.create("trunks", port_id=parent, sub_ports=[sub_port])
    assert trunk["sub_ports"] == [sub_port]
    api("PUT", f"ports/{parent}", {"port": {"binding:host_id": "node1"}})
    assert api("GET", f"ports/{child}")["port"]["status"] == "ACTIVE"
    added = {"sub_ports": [{**sub_port, "port_id": later, "segmentation_id": 6}]}
    api("PUT", f"trunks/{trunk['id']}/add_subports", added)
    assert api("GET", f"ports/{later}")["port"]["status"] == "ACTIVE"
