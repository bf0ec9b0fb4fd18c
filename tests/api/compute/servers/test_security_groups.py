# SPDX-License-Identifier: Apache-2.0
from api.compute_cloud import Cloud
from support.fake_neutron import FakeNeutron

TOKEN, OWN = "alice:wonder", "wonder"


def test_the_groups_of_a_server_are_those_of_its_ports(networked: Cloud, neutron: FakeNeutron) -> None:
    neutron.user(TOKEN, OWN)
    server, member = networked.add_server(None), networked.member
    path = f"/servers/{server}/os-security-groups"
    assert member.get(path).body == {"security_groups": []}
    web = neutron.create("security-groups", {"name": "web", "description": "open"}, token=TOKEN)
    rule = {"security_group_id": web["id"], "direction": "ingress", "protocol": "tcp"}
    neutron.create("security-group-rules", {**rule, "port_range_min": 80, "port_range_max": 80}, token=TOKEN)
    network = neutron.make_network(project_id=OWN)
    neutron.make_port(network, OWN, device_id=server, security_groups=[web["id"]])
    neutron.make_port(network, OWN, device_id=server)
    default, shown = member.get(path).body["security_groups"]
    assert (default["name"], shown["id"], shown["name"]) == ("default", web["id"], "web")
    assert (shown["tenant_id"], shown["description"]) == (OWN, "open")
    ((port,),) = [[each for each in shown["rules"] if each["from_port"] == 80]]
    assert (port["ip_protocol"], port["to_port"]) == ("tcp", 80)
    assert networked.as_user("mallory", "elsewhere").get(path).status == 404
