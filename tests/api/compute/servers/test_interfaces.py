# SPDX-License-Identifier: Apache-2.0
"""Ports of servers: listed and shown as the network service has them, attached and detached."""

from typing import Any

import pytest

from support.api_client import Answer
from support.control import Control
from support.fake_neutron import FakeNeutron, Fault
from support.network_agents import EGRESS, add_agent, taken

NOBODYS = "5b674f73-0000-4000-8000-000000000000"
OWN = "wonder"


@pytest.fixture
def control(networked_control: Control) -> Control:
    return networked_control


@pytest.fixture
def neutron(control: Control) -> FakeNeutron:
    return control.neutron


@pytest.fixture
def network(neutron: FakeNeutron) -> str:
    return neutron.make_network(project_id=OWN)


@pytest.fixture
def server(control: Control, network: str) -> str:
    """A server with one port, which Kilonova has created."""
    return str(control.boot(networks=[{"uuid": network, "tag": "first"}])["id"])


def attach(control: Control, server: str, at: str = "2.100", **asked: Any) -> Answer:
    return control.member.at(at).post(f"/servers/{server}/os-interface", {"interfaceAttachment": asked})


def shown(neutron: FakeNeutron, port_id: str, **more: Any) -> dict[str, Any]:
    port = neutron.port(port_id)
    return {
        "net_id": port["network_id"],
        "port_id": port_id,
        "mac_addr": port["mac_address"],
        "port_state": port["status"],
        "fixed_ips": port["fixed_ips"],
        **more,
    }


def ports(neutron: FakeNeutron, server: str) -> list[str]:
    return [port["id"] for port in neutron.ports_of(server)]


@pytest.mark.parametrize(("version", "more"), [("2.1", {}), ("2.69", {}), ("2.70", {"tag": "first"})])
def test_ports_are_listed_and_shown(
    control: Control, neutron: FakeNeutron, server: str, version: str, more: dict[str, Any]
) -> None:
    (port,) = ports(neutron, server)
    member = control.member.at(version)
    view = shown(neutron, port, **more)
    assert member.get(f"/servers/{server}/os-interface").body == {"interfaceAttachments": [view]}
    assert member.get(f"/servers/{server}/os-interface/{port}").body == {"interfaceAttachment": view}


def test_a_port_that_is_unknown_or_of_another_server(
    control: Control, network: str, neutron: FakeNeutron, server: str
) -> None:
    loose = neutron.make_port(network, OWN)
    for port, words in (
        (NOBODYS, f"Port id {NOBODYS} could not be found."),
        (loose, f"does not have a port with id {loose}"),
    ):
        answer = control.member.get(f"/servers/{server}/os-interface/{port}")
        assert answer.status == 404
        assert words in answer.fault[1]
        answer = control.member.delete(f"/servers/{server}/os-interface/{port}")
        assert (answer.status, answer.fault[1]) == (404, f"Port id {port} could not be found.")
    assert control.stranger.get(f"/servers/{server}/os-interface").status == 404


def test_a_port_of_a_network_with_an_address_and_a_tag(
    control: Control, network: str, neutron: FakeNeutron, server: str
) -> None:
    answer = attach(control, server, net_id=network, fixed_ips=[{"ip_address": "10.1.0.77"}], tag="second")
    (port,) = set(ports(neutron, server)) - {ports(neutron, server)[0]}
    assert (answer.status, answer.body) == (200, {"interfaceAttachment": shown(neutron, port, tag="second")})
    assert answer.body["interfaceAttachment"]["fixed_ips"][0]["ip_address"] == "10.1.0.77"
    view = control.member.get(f"/servers/{server}").body["server"]
    assert [each["addr"] for each in view["addresses"]["private"]][1:] == ["10.1.0.77"]
    actions = control.member.get(f"/servers/{server}/os-instance-actions").body["instanceActions"]
    assert actions[0]["action"] == "attach_interface"
    control.check()


def test_a_port_of_the_user_and_its_release(control: Control, neutron: FakeNeutron, network: str, server: str) -> None:
    port = neutron.make_port(network, OWN)
    assert attach(control, server, port_id=port).status == 200
    assert neutron.port(port)["device_id"] == server
    answer = control.member.delete(f"/servers/{server}/os-interface/{port}")
    assert (answer.status, answer.raw) == (202, b"")
    control.settle()
    assert neutron.port(port)["device_id"] == ""
    assert control.member.get(f"/servers/{server}").body["server"]["addresses"].keys() == {"private"}
    control.check()


def test_the_only_network_is_meant_by_an_empty_body(control: Control, neutron: FakeNeutron, server: str) -> None:
    for body in ({}, {"interfaceAttachment": {}}):
        assert control.member.post(f"/servers/{server}/os-interface", body).status == 200
    assert control.member.post(f"/servers/{server}/os-interface", None).status == 400
    assert len(ports(neutron, server)) == 3


def test_a_created_port_is_deleted_by_the_detach(control: Control, neutron: FakeNeutron, server: str) -> None:
    (port,) = ports(neutron, server)
    assert control.member.delete(f"/servers/{server}/os-interface/{port}").status == 202
    control.settle()
    assert ports(neutron, server) == []
    view = control.member.get(f"/servers/{server}").body["server"]
    assert (view["addresses"], view.get("security_groups")) == ({}, None)


def test_a_server_without_networks_can_get_one(control: Control, neutron: FakeNeutron, network: str) -> None:
    server = control.boot(networks="none")["id"]
    assert attach(control, server, net_id=network).status == 200
    assert control.member.get(f"/servers/{server}").body["server"]["addresses"]["private"]
    assert len(ports(neutron, server)) == 1


def refused(control: Control, server: str, **asked: Any) -> tuple[int, str]:
    answer = attach(control, server, **asked)
    control.settle()
    return answer.status, answer.fault[1]


def test_a_port_whose_device_the_host_lacks(control: Control, neutron: FakeNeutron, network: str, server: str) -> None:
    port = neutron.make_port(network, OWN, **{"binding:vnic_type": "direct"})
    said = f"The host of the server has no free PCI device for port {port}."
    assert refused(control, server, port_id=port) == (400, said)
    assert neutron.port(port)["device_id"] == ""
    accelerated = neutron.make_port(network, OWN, **{"binding:vnic_type": "accelerator-direct"})
    assert refused(control, server, port_id=accelerated)[0] == 400
    control.check()


def test_what_cannot_be_attached(control: Control, neutron: FakeNeutron, network: str, server: str) -> None:
    port = neutron.make_port(network, OWN)
    used = neutron.make_port(network, OWN, device_id="other")
    address = neutron.port(used)["fixed_ips"][0]["ip_address"]
    fixed = [{"ip_address": address}]
    assert refused(control, server, net_id=network, port_id=port) == (
        400, "Must not input both network_id and port_id",
    )  # fmt: skip
    assert refused(control, server, fixed_ips=fixed) == (400, "Must input network_id when request IP address")
    assert refused(control, server, net_id=NOBODYS) == (404, f"Network {NOBODYS} could not be found.")
    assert refused(control, server, port_id=NOBODYS) == (404, f"Port id {NOBODYS} could not be found.")
    assert refused(control, server, port_id=used) == (409, f"Port {used} is still in use.")
    said = f"Fixed IP address {address} is already in use on instance other."
    assert refused(control, server, net_id=network, fixed_ips=fixed) == (409, said)
    assert refused(control, server, net_id=neutron.make_external())[0] == 403
    neutron.set_quota(OWN, port=1)
    assert refused(control, server, net_id=network)[0] == 403
    assert len(ports(neutron, server)) == 1
    control.check()


def test_no_network_and_several(control: Control, neutron: FakeNeutron) -> None:
    server = control.boot(networks="none")["id"]
    said = f"No specific network was requested and none are available for project '{OWN}'."
    assert refused(control, server) == (400, said)
    neutron.make_network("one", OWN)
    neutron.make_network("two", OWN, v4="10.2.0.0/24")
    assert refused(control, server)[0] == 400


def test_wrong_states_and_locks(control: Control, neutron: FakeNeutron, network: str, server: str) -> None:
    (port,) = ports(neutron, server)
    for action in ({"suspend": None}, {"lock": None}):
        assert control.admin.post(f"/servers/{server}/action", action).status == 202
        control.settle()
        status, message = refused(control, server, net_id=network)
        assert status == 409
        assert "suspended" in message or "locked" in message
        assert control.member.delete(f"/servers/{server}/os-interface/{port}").status == 409
    assert ports(neutron, server) == [port]


def test_a_paused_server_gets_an_interface_but_releases_none(
    control: Control, neutron: FakeNeutron, network: str, server: str
) -> None:
    (port,) = ports(neutron, server)
    assert control.member.post(f"/servers/{server}/action", {"pause": None}).status == 202
    control.settle()
    assert attach(control, server, net_id=network).status == 200
    answer = control.member.delete(f"/servers/{server}/os-interface/{port}")
    message = f"Cannot 'detach_interface' instance {server} while it is in vm_state paused"
    assert (answer.status, answer.body["conflictingRequest"]["message"]) == (409, message)
    assert len(ports(neutron, server)) == 2


@pytest.mark.parametrize(
    ("asked", "since"),
    [
        ({"net_id": "x"}, None),
        ({"port_id": 1}, None),
        ({"fixed_ips": []}, None),
        ({"fixed_ips": [{"ip_address": "x"}]}, None),
        ({"fixed_ips": [{"ip_address": "10.0.0.1"}, {"ip_address": "10.0.0.2"}]}, None),
        ({"more": 1}, None),
        ({"tag": "a,b"}, None),
        ({"tag": "a"}, "2.49"),
    ],
)
def test_bodies_of_another_form_are_refused(control: Control, server: str, asked: Any, since: str | None) -> None:
    assert attach(control, server, at="2.48", **asked).status == 400
    assert attach(control, server, at="2.49", **asked).status == (200 if since else 400)


def test_a_network_service_that_does_not_answer(
    control: Control, neutron: FakeNeutron, network: str, server: str
) -> None:
    for call in ("GET networks", "POST ports"):
        neutron.faults.plan(call, Fault.ERROR)
        assert refused(control, server, net_id=network)[0] == 503
    assert len(ports(neutron, server)) == 1
    neutron.faults.plan("GET ports", Fault.ERROR)
    assert control.member.get(f"/servers/{server}/os-interface").status == 503
    assert control.member.get(f"/servers/{server}").body["server"]["addresses"]


def test_a_host_that_cannot_take_the_interface(
    control: Control, neutron: FakeNeutron, network: str, server: str
) -> None:
    neutron.ports.unbindable |= {"node1", "node2"}
    said = f"Failed to attach network adapter device to {server}"
    assert refused(control, server, net_id=network) == (500, said)
    assert len(ports(neutron, server)) == 1
    control.check()


def test_an_attached_port_gets_what_it_requests(control: Control, neutron: FakeNeutron, server: str) -> None:
    host = control.admin.get(f"/servers/{server}").body["server"]["OS-EXT-SRV-ATTR:host"]
    bridge = add_agent(control.process.database, host, bandwidth=1_000, physical="none")
    network = neutron.make_network("guaranteed", OWN, v4="10.8.0.0/24")
    first, second = (neutron.make_port(network, OWN, qos_policy_id=neutron.make_policy(egress=600)) for _ in range(2))
    assert attach(control, server, "2.70", port_id=first).status == 200
    assert taken(control.process.database, server, EGRESS) == {bridge: {EGRESS: 600}}
    refused = attach(control, server, port_id=second)
    assert (refused.status, refused.fault[1]) == (
        400,
        f"The host of the server cannot give the resources that port {second} requests.",
    )
    assert control.member.delete(f"/servers/{server}/os-interface/{first}").status == 202
    control.settle()
    assert taken(control.process.database, server, EGRESS) == {}
    assert attach(control, server, port_id=second).status == 200


def test_a_network_with_a_guarantee_is_not_attached(control: Control, neutron: FakeNeutron, server: str) -> None:
    network = neutron.make_network("guaranteed", OWN, v4="10.8.0.0/24", qos_policy_id=neutron.make_policy(egress=600))
    refused = attach(control, server, net_id=network)
    assert (refused.status, refused.fault[1]) == (
        400,
        f"Using networks with QoS policy is not supported for instance {server}. (Network ID is {network})",
    )
    assert len(ports(neutron, server)) == 1
