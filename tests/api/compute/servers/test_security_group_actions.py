# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest

from api.compute_cloud import Cloud
from support.api_client import Answer
from support.fake_neutron import FakeNeutron
from support.interfaces import interface

TOKEN, OWN = "alice:wonder", "wonder"


@pytest.fixture
def server(networked: Cloud, neutron: FakeNeutron) -> str:
    """A server with two ports."""
    for token in (TOKEN, "mallory:elsewhere", "bob:wonder"):
        neutron.user(token, token.partition(":")[2])
    neutron.create("security-groups", {"name": "web"}, token=TOKEN)
    uuid, network = networked.add_server(None), neutron.make_network(project_id=OWN)
    ports = [neutron.make_port(network, OWN, device_id=uuid) for _ in range(2)]
    vifs = [interface("private", "10.1.0.2", port_id=port, security_groups=("default",)) for port in ports]
    networked.set_interfaces(uuid, tuple(vifs))
    return uuid


def act(cloud: Cloud, server: str, action: str, name: Any = "web") -> Answer:
    return cloud.member.post(f"/servers/{server}/action", {action: {"name": name}})


def shown(cloud: Cloud, server: str) -> list[str]:
    return [each["name"] for each in cloud.member.get(f"/servers/{server}").body["server"]["security_groups"]]


def test_a_group_is_added_to_all_ports_and_removed(networked: Cloud, neutron: FakeNeutron, server: str) -> None:
    answer = act(networked, server, "addSecurityGroup")
    assert (answer.status, answer.raw) == (202, b"")
    assert [len(port["security_groups"]) for port in neutron.ports_of(server)] == [2, 2]
    assert shown(networked, server) == ["default", "web"] * 2
    assert act(networked, server, "addSecurityGroup").status == 202
    assert shown(networked, server) == ["default", "web"] * 2
    assert act(networked, server, "removeSecurityGroup").status == 202
    assert [len(port["security_groups"]) for port in neutron.ports_of(server)] == [1, 1]
    assert shown(networked, server) == ["default"] * 2


@pytest.mark.parametrize("action", ["addSecurityGroup", "removeSecurityGroup"])
def test_what_cannot_be_done_is_refused_in_nova_s_words(
    networked: Cloud, neutron: FakeNeutron, server: str, action: str
) -> None:
    answer = act(networked, server, action, "mail")
    assert (answer.status, answer.fault[1]) == (404, f"Security group mail is not found for project {OWN}")
    answer = act(networked, networked.add_server(None), action)
    assert answer.status == 404
    assert "could not be found as device id on any ports" in answer.fault[1]
    neutron.create("security-groups", {"name": "web"}, token=TOKEN)
    assert act(networked, server, action).status == 409
    for name in ("", " ", 1, None):
        assert act(networked, server, action, name).status == 400
    assert shown(networked, server) == ["default"] * 2


def test_a_group_that_the_server_does_not_have(networked: Cloud, server: str) -> None:
    answer = act(networked, server, "removeSecurityGroup")
    assert (answer.status, answer.fault[1]) == (404, f"Security group web not associated with the instance {server}")


def test_a_port_without_port_security(networked: Cloud, neutron: FakeNeutron, server: str) -> None:
    neutron.make_port(neutron.make_network("open", OWN), OWN, device_id=server, port_security_enabled=False)
    assert act(networked, server, "addSecurityGroup").status == 400


def test_strangers_and_readers_may_not(networked: Cloud, server: str) -> None:
    body = {"addSecurityGroup": {"name": "web"}}
    assert networked.as_user("mallory", "elsewhere").post(f"/servers/{server}/action", body).status == 404
    assert networked.as_user("bob", "wonder", "reader").post(f"/servers/{server}/action", body).status == 403


@pytest.mark.parametrize("body", [{"addSecurityGroup": {}}, {"removeSecurityGroup": None}])
def test_invalid_bodies_are_refused(cloud: Cloud, body: Any) -> None:
    assert cloud.member.post(f"/servers/{cloud.add_server(None)}/action", body).status == 400
