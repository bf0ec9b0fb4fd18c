# SPDX-License-Identifier: Apache-2.0
"""Expectations that the fake Neutron and the real one meet alike, seen through the network client."""

import re
import uuid
from typing import Any

import pytest

from kilonova.errors import ConcurrentUpdate, Conflict, Forbidden, InvalidRequest, NotFound, OverQuota
from kilonova.model.network_request import RequestedNetwork
from kilonova.network import bindings, device_ports, ports
from kilonova.network.port_owner import PortOwner
from kilonova.network.port_quota import require_quota
from kilonova.network.requests import read_request
from support.fake_neutron import FakeNeutron
from support.fake_neutron.addresses import eui64
from support.neutron_world import HOST, World


def addresses(port: Any) -> list[str]:
    return sorted(each["ip_address"] for each in port["fixed_ips"])


def test_one_request_makes_and_binds_a_port(world: World) -> None:
    port = world.bound(world.network(v6=True), mac_address="fa:16:3e:aa:bb:cc")
    v4, v6 = addresses(port)
    assert (v4.startswith("10.1.0."), v6) == (True, "fd00:1::f816:3eff:feaa:bbcc")
    assert (port["status"], port["binding:vif_type"], port["binding:vnic_type"]) == ("ACTIVE", "ovs", "normal")
    assert port["binding:vif_details"]["bridge_name"] == "br-int"
    assert (port["binding:host_id"], port["binding:profile"], port["project_id"]) == ("node1", {}, world.project)
    (group,) = world.client.list("security-groups", project_id=world.project, name="default", fields=["id"])
    assert port["security_groups"] == [group["id"]]
    assert port["admin_state_up"] is True


def test_one_request_makes_several_ports_or_none(world: World) -> None:
    network = world.network()
    values = {"project_id": world.project, "network_id": network, "device_owner": "compute:nova", **HOST}
    wanted = [{**values, "device_id": str(uuid.uuid4())} for _ in range(3)]
    made = world.client.call("POST", "/ports", {"ports": wanted})["ports"]
    assert [port["device_id"] for port in made] == [each["device_id"] for each in wanted]
    assert {(port["status"], port["binding:vif_type"], len(port["fixed_ips"])) for port in made} == {
        ("ACTIVE", "ovs", 1)
    }
    refused = {**values, "device_id": str(uuid.uuid4()), "fixed_ips": [{"ip_address": addresses(made[0])[0]}]}
    with pytest.raises(Conflict) as caught:
        world.client.call("POST", "/ports", {"ports": [{**values, "device_id": str(uuid.uuid4())}, refused]})
    assert caught.value.fields["type"] == "IpAddressAlreadyAllocated"
    assert len(world.client.list("ports", network_id=network)) == 3


def test_requested_addresses(world: World) -> None:
    network = world.network(v6=True)
    port = world.bound(network, fixed_ips=[{"ip_address": "10.1.0.77"}])
    assert addresses(port)[0] == "10.1.0.77"
    assert len(addresses(port)) == 2
    bare = world.bound(network, fixed_ips=[])
    assert (addresses(bare), bare["ip_allocation"]) == ([eui64("fd00:1::/64", bare["mac_address"])], "none")
    taken = {"network_id": network, "fixed_ips": [{"ip_address": "10.1.0.77"}]}
    with pytest.raises(Conflict) as used:
        world.client.create("ports", taken)
    assert used.value.fields["type"] == "IpAddressAlreadyAllocated"
    assert "already allocated in subnet" in used.value.message
    with pytest.raises(InvalidRequest, match="is not a valid IP for") as outside:
        world.client.create("ports", {**taken, "fixed_ips": [{"ip_address": "10.9.0.1"}]})
    assert outside.value.fields["type"] == "InvalidIpForNetwork"
    with pytest.raises(Conflict) as mac:
        world.client.create("ports", {"network_id": network, "mac_address": port["mac_address"]})
    assert mac.value.fields["type"] == "MacAddressInUse"


def test_a_network_without_free_addresses(world: World) -> None:
    network = world.network("10.1.0.0/30")
    world.bound(network)
    with pytest.raises(Conflict, match="No more IP addresses available on network") as caught:
        world.bound(network)
    assert caught.value.fields["type"] == "IpAddressGenerationFailure"


def test_what_users_see(world: World) -> None:
    own, foreign = world.network(), world.network(project_id=world.other)
    shared = world.network(project_id=world.other, shared=True)
    external = world.network(project_id=world.other, **{"router:external": True})
    granted = world.network(project_id=world.other)
    policy = {"object_type": "network", "object_id": granted, "action": "access_as_shared"}
    world.make("rbac-policies", target_tenant=world.project, **policy)
    made = [own, foreign, shared, external, granted]
    seen = world.client.list("networks", token=world.project, id=made)
    assert {each["id"]: each["shared"] for each in seen} == {own: False, shared: True, external: False, granted: True}
    assert [each["id"] for each in world.client.list("networks", token=world.project, id=made, shared=False)] == [
        each["id"] for each in seen if not each["shared"]
    ]
    assert {each["id"] for each in world.client.list("networks", token=world.project, id=made, shared=True)} == {
        shared,
        granted,
    }
    one = world.client.list("networks", token=world.project, id=made, **{"router:external": True}, fields=["id"])
    assert one == [{"id": external}]
    for network in (foreign, external):
        with pytest.raises((NotFound, Forbidden)):
            world.client.create("ports", {"network_id": network}, token=world.project)
    assert world.client.create("ports", {"network_id": granted}, token=world.project)["project_id"] == world.project


def test_ports_belong_to_users(world: World) -> None:
    foreign = world.make("ports", network_id=world.network(project_id=world.other), project_id=world.other)["id"]
    port = world.client.create("ports", {"network_id": world.network(), "name": "p"}, token=world.project)
    assert "binding:host_id" not in port
    assert "binding:vnic_type" in port
    assert [each["id"] for each in world.client.list("ports", token=world.project)] == [port["id"]]
    for call in (
        lambda: world.client.show("ports", str(uuid.uuid4())),
        lambda: world.client.show("ports", foreign, token=world.project),
        lambda: world.client.update("ports", foreign, {"name": "mine"}, token=world.project),
        lambda: world.client.delete("ports", foreign, token=world.project),
    ):
        with pytest.raises(NotFound) as caught:
            call()
        assert caught.value.fields["type"] == "PortNotFound"
    with pytest.raises(Forbidden, match="disallowed by policy"):
        world.client.update("ports", port["id"], HOST, token=world.project)
    with pytest.raises(NotFound):
        world.client.show("networks", world.network(project_id=world.other), token=world.project)


def test_filters(world: World) -> None:
    network = world.network()
    first, second = (world.bound(network, name=name) for name in ("a b&c", "d"))
    both = [first["id"], second["id"]]

    def found(**filters: Any) -> set[str]:
        return {each["id"] for each in world.client.list("ports", network_id=network, **filters)}

    assert found(id=both) == found(name=["a b&c", "d"]) == found(project_id=world.project) == set(both)
    assert found(id=both, name="d") == {second["id"]}
    assert found(device_id=first["device_id"], project_id=world.project) == {first["id"]}
    assert found(device_id=first["device_id"], project_id=world.other) == set()
    address = second["fixed_ips"][0]["ip_address"]
    assert found(fixed_ips=f"ip_address={address}") == {second["id"]}
    assert found(fixed_ips=[f"ip_address={each['fixed_ips'][0]['ip_address']}" for each in (first, second)]) == set(
        both
    )
    assert found(**{"binding:host_id": "node1"}) == set(both)
    assert found(id=[]) == found(id=["missing"]) == set()
    only = world.client.list("ports", id=both, name="d", fields=["id", "device_id"])
    assert only == [{"id": second["id"], "device_id": second["device_id"]}]
    many = [*both, *(str(uuid.uuid4()) for _ in range(400))]
    assert found(id=many) == set(both)


def test_a_port_is_released_and_bound_again(world: World) -> None:
    port = world.bound(world.network(), **{"binding:profile": {"a": "b"}})
    unbound = world.client.update("ports", port["id"], {"binding:host_id": None})
    assert (unbound["binding:host_id"], unbound["binding:vif_type"], unbound["status"]) == ("", "unbound", "DOWN")
    assert unbound["binding:profile"] == {"a": "b"}
    released = world.client.update("ports", port["id"], {"device_id": "", "device_owner": "", "binding:profile": {}})
    assert (released["device_id"], released["device_owner"], released["binding:profile"]) == ("", "", {})
    again = world.client.update("ports", port["id"], {"binding:host_id": "node2"})
    assert (again["binding:vif_type"], again["status"]) == ("ovs", "ACTIVE")


def test_a_change_at_a_revision(world: World) -> None:
    port = world.bound(world.network())
    changed = world.client.update("ports", port["id"], {"name": "a"}, revision=port["revision_number"])
    assert changed["revision_number"] > port["revision_number"]
    with pytest.raises(ConcurrentUpdate):
        world.client.update("ports", port["id"], {"name": "b"}, revision=port["revision_number"])
    assert world.client.show("ports", port["id"])["name"] == "a"


def test_bindings(world: World) -> None:
    port = world.bound(world.network())["id"]
    asked = {"binding": {"host": "node2", "vnic_type": "normal", "profile": {"a": "b"}}}
    binding = world.client.call("POST", f"/ports/{port}/bindings", asked)["binding"]
    assert (binding["host"], binding["status"], binding["vif_type"]) == ("node2", "INACTIVE", "ovs")
    assert (binding["profile"], binding["vnic_type"]) == ({"a": "b"}, "normal")
    with pytest.raises(Conflict):
        world.client.call("POST", f"/ports/{port}/bindings", asked)
    assert world.client.call("PUT", f"/ports/{port}/bindings/node2/activate")
    moved = world.client.show("ports", port)
    assert (moved["binding:host_id"], moved["binding:profile"]) == ("node2", {"a": "b"})
    with pytest.raises(Conflict):
        world.client.call("PUT", f"/ports/{port}/bindings/node2/activate")
    found = world.client.call("GET", f"/ports/{port}/bindings")["bindings"]
    assert {each["host"]: each["status"] for each in found} == {"node1": "INACTIVE", "node2": "ACTIVE"}
    assert world.client.call("DELETE", f"/ports/{port}/bindings/node1") == {}
    for method, path in (("DELETE", ""), ("PUT", "/activate")):
        with pytest.raises(NotFound) as missing:
            world.client.call(method, f"/ports/{port}/bindings/node1{path}")
        assert missing.value.fields["type"] == "PortBindingNotFound"
    world.client.delete("ports", port)
    with pytest.raises(NotFound) as gone:
        world.client.call("PUT", f"/ports/{port}/bindings/node2/activate")
    assert gone.value.fields["type"] == "PortNotFound"


def test_security_groups(world: World) -> None:
    group = world.client.create("security-groups", {"name": "web", "description": "d"}, token=world.project)
    assert {(each["direction"], each["ethertype"]) for each in group["security_group_rules"]} == {
        ("egress", "IPv4"),
        ("egress", "IPv6"),
    }
    rule = {"security_group_id": group["id"], "direction": "ingress", "protocol": "tcp"}
    rule |= {"port_range_min": 80, "port_range_max": 80, "remote_ip_prefix": "10.0.0.0/8"}
    made = world.client.create("security-group-rules", rule, token=world.project)
    with pytest.raises(Conflict, match=re.escape(f"Security group rule already exists. Rule id is {made['id']}.")):
        world.client.create("security-group-rules", rule, token=world.project)
    port = world.bound(world.network(), security_groups=[group["id"]])
    with pytest.raises(Conflict, match="in use"):
        world.client.delete("security-groups", group["id"], token=world.project)
    world.client.update("ports", port["id"], {"security_groups": []}, token=world.project)
    world.client.delete("security-group-rules", made["id"], token=world.project)
    world.client.delete("security-groups", group["id"], token=world.project)
    (default,) = world.client.list("security-groups", token=world.project)
    assert default["name"] == "default"
    with pytest.raises(Conflict):
        world.client.delete("security-groups", default["id"], token=world.project)
    with pytest.raises(NotFound) as missing:
        world.client.create("ports", {"network_id": port["network_id"], "security_groups": [group["id"]]})
    assert missing.value.fields["type"] == "SecurityGroupNotFound"


def test_quotas(world: World) -> None:
    network = world.network()
    assert "port" in world.client.call("GET", f"/quotas/{world.project}", token=world.project)["quota"]
    world.client.update("quotas", world.project, {"port": 1})
    world.client.create("ports", {"network_id": network}, token=world.project)
    with pytest.raises(OverQuota, match=re.escape("Quota exceeded for resources: ['port'].")) as caught:
        world.client.create("ports", {"network_id": network}, token=world.project)
    assert caught.value.fields["type"] == "OverQuota"
    details = world.client.call("GET", f"/quotas/{world.project}/details", token=world.project)["quota"]["port"]
    assert (details["limit"], details["used"], int(details["reserved"])) == (1, 1, 0)


def test_networks_in_use_are_not_deleted(world: World) -> None:
    network = world.network()
    port = world.bound(network)["id"]
    (subnet,) = world.client.show("networks", network)["subnets"]
    for kind, each in (("networks", network), ("subnets", subnet)):
        with pytest.raises(Conflict):
            world.client.delete(kind, each)
    world.client.delete("ports", port)
    world.client.delete("networks", network)
    with pytest.raises(NotFound, match=f"Network {network} could not be found") as caught:
        world.client.create("ports", {"network_id": network})
    assert caught.value.fields["type"] == "NetworkNotFound"


def test_floating_addresses(world: World) -> None:
    external = world.network("172.24.4.0/24", **{"router:external": True})
    network = world.network()
    router = world.make("routers", external_gateway_info={"network_id": external})["id"]
    (subnet,) = world.client.show("networks", network)["subnets"]
    world.client.call("PUT", f"/routers/{router}/add_router_interface", {"subnet_id": subnet})
    port = world.bound(network)["id"]
    floating = world.client.create("floatingips", {"floating_network_id": external}, token=world.project)
    assert (floating["port_id"], floating["fixed_ip_address"]) == (None, None)
    used = world.client.update("floatingips", floating["id"], {"port_id": port}, token=world.project)
    (found,) = world.client.list("floatingips", port_id=[port])
    assert found["floating_ip_address"] == used["floating_ip_address"]
    assert (used["status"], used["fixed_ip_address"]) == (
        "ACTIVE",
        world.client.show("ports", port)["fixed_ips"][0]["ip_address"],
    )
    second = world.client.create("floatingips", {"floating_network_id": external}, token=world.project)["id"]
    with pytest.raises(Conflict, match="already has a floating IP"):
        world.client.update("floatingips", second, {"port_id": port}, token=world.project)
    world.client.delete("ports", port)
    left = world.client.show("floatingips", floating["id"])
    assert (left["port_id"], left["status"]) == (None, "DOWN")
    with pytest.raises(InvalidRequest):
        world.client.create("floatingips", {"floating_network_id": network}, token=world.project)


def test_a_topology_needs_a_default_external_network(world: World) -> None:
    path = f"/auto-allocated-topology/{world.project}"
    with pytest.raises(Conflict):
        world.client.call("GET", f"{path}?fields=dry-run", token=world.project)


def test_unknown_resources(world: World) -> None:
    for call in (
        lambda: world.client.list("no-such-things"),
        lambda: world.client.call("GET", "/no-such-things/x"),
    ):
        with pytest.raises(NotFound):
            call()


def test_extensions_of_the_fake_are_those_of_the_real_one(world: World) -> None:
    aliases = {each["alias"] for each in world.client.list("extensions")}
    assert {each["alias"] for each in FakeNeutron(extensions=["dns-integration"]).list("extensions")} - {
        "dns-integration"
    } <= aliases


def test_the_life_of_a_server(world: World) -> None:
    """From the request of a user to the deletion, by the functions of the package."""
    client, project = world.client, world.project
    network = world.network(v6=True)
    given = client.create("ports", {"network_id": network, "name": "mine"}, token=project)["id"]
    client.create("security-groups", {"name": "web"}, token=project)
    asked = [{"uuid": network, "fixed_ip": "10.1.0.50"}, {"port": given, "tag": "b"}]
    request = read_request(client, project, project, asked, ["web"], 1, external_allowed=False)
    require_quota(client, project, project, request, 1)
    owner = PortOwner(instance_uuid=str(uuid.uuid4()), project_id=project, zone="nova", hostname="web-1")
    info = ports.create_ports(client, owner, request, "node1", repeated=False)
    assert ports.create_ports(client, owner, request, "node1", repeated=True) == info
    assert [(vif.created, vif.active, vif.vif_type, vif.tag) for vif in info] == [
        (True, True, "ovs", None),
        (False, True, "ovs", "b"),
    ]
    assert info[0].security_groups == ("web",)
    assert "10.1.0.50" in [fixed.address for _, fixed in info[0].addresses]
    with pytest.raises(Conflict, match="still in use"):
        read_request(client, project, project, [{"port": given}], [], 1, external_allowed=False)
    vif = ports.attach_port(client, owner, info, RequestedNetwork(network_id=network), "node1", repeated=False)
    assert len(ports.refresh(client, owner, (*info, vif))) == 3
    ports.detach_port(client, owner, vif)
    bindings.prepare(client, owner, info, "node2")
    moved = bindings.activate(client, owner, info, "node2")
    bindings.remove(client, owner, info, "node1")
    assert [vif.port_id for vif in moved] == [vif.port_id for vif in info]
    assert [vif.vif_type for vif in ports.unbind(client, owner, moved)] == ["unbound", "unbound"]
    back = ports.rebind(client, owner, moved, "node1")
    assert [vif.active for vif in back] == [True, True]
    assert {port["binding:host_id"] for port in client.list("ports", device_id=owner.instance_uuid)} == {"node1"}
    for _ in range(2):
        ports.delete_ports(client, owner, request.user_ports)
    assert client.list("ports", device_id=owner.instance_uuid) == []
    released = client.show("ports", given)
    assert (released["device_owner"], released["binding:host_id"], released["name"]) == ("", "", "mine")


def test_refused_ports_of_a_server(world: World) -> None:
    network = world.network("10.1.0.0/29")
    owner = PortOwner(instance_uuid=str(uuid.uuid4()), project_id=world.project, zone="nova")
    for address, error, text in (
        ("10.9.0.1", InvalidRequest, "Fixed IP 10.9.0.1 is not a valid ip address for network"),
        ("10.1.0.3", None, ""),
        ("10.1.0.3", Conflict, "Fixed IP 10.1.0.3 is already in use."),
    ):
        item = RequestedNetwork(network_id=network, address=address)
        if error is None:
            ports.attach_port(world.client, owner, (), item, "node1", repeated=False)
            continue
        with pytest.raises(error, match=re.escape(text)):
            ports.attach_port(world.client, owner, (), item, "node1", repeated=False)


def test_a_user_adds_and_removes_addresses_of_a_port(world: World) -> None:
    client, network = world.client, world.network()
    (subnet,) = client.list("subnets", network_id=network, token=world.project, fields=["id"])
    port = client.show("ports", world.bound(network)["id"], token=world.project)
    first = port["fixed_ips"][0]

    def change(addresses: list[Any], revision: int) -> Any:
        return client.update("ports", port["id"], {"fixed_ips": addresses}, token=world.project, revision=revision)

    both = change([first, {"subnet_id": subnet["id"]}], port["revision_number"])
    assert len(both["fixed_ips"]) == 2
    assert first in both["fixed_ips"]
    with pytest.raises(ConcurrentUpdate):
        change([], port["revision_number"])
    (second,) = (each for each in both["fixed_ips"] if each != first)
    assert change([second], both["revision_number"])["fixed_ips"] == [second]


def test_ports_have_pages_in_the_order_of_their_ids(world: World) -> None:
    network = world.network()
    made = {world.bound(network)["id"] for _ in range(3)}
    found: list[str] = []
    while (page := device_ports.page(world.client, found[-1] if found else None, 2)).ids:
        assert len(page.ids) <= 2
        assert {port.id for port in page.ports} <= set(page.ids)
        found += page.ids
    assert found == sorted(set(found))
    assert made <= set(found)
    last = max(made)
    world.client.delete("ports", last)
    with pytest.raises(NotFound):
        device_ports.page(world.client, last, 2)
