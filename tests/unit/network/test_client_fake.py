# SPDX-License-Identifier: Apache-2.0
"""The fake Neutron behaves as tests of other modules rely on it; the contract test compares it with the real one."""

import pytest

from kilonova.errors import Conflict, Forbidden, InvalidRequest, NotFound, OverQuota, Unavailable
from kilonova.network.client import NetworkClient
from support.fake_neutron import FakeNeutron, Fault

SERVER = "11111111-1111-4111-8111-111111111111"


@pytest.fixture
def fake() -> FakeNeutron:
    fake = FakeNeutron()
    fake.user("demo-token", "demo")
    fake.user("other-token", "other")
    return fake


def test_is_a_network_client() -> None:
    client: NetworkClient = FakeNeutron()
    assert client.list("networks") == []


def test_a_port_of_a_dual_stack_network_has_an_address_of_each_family(fake: FakeNeutron) -> None:
    network = fake.make_dual_stack()
    port = fake.create("ports", {"network_id": network, "mac_address": "fa:16:3e:aa:bb:cc"}, token="demo-token")
    addresses = [each["ip_address"] for each in port["fixed_ips"]]
    assert addresses == ["10.1.0.2", "fd00:1::f816:3eff:feaa:bbcc"]
    assert port["status"] == "DOWN"
    assert port["security_groups"] == [each["id"] for each in fake.list("security-groups", project_id="demo")]
    assert "binding:host_id" not in port


def test_a_bound_port_is_active_at_once_or_when_it_is_plugged() -> None:
    for plugs_at_once, status in ((True, "ACTIVE"), (False, "DOWN")):
        fake = FakeNeutron(plugs_at_once=plugs_at_once)
        values = {"network_id": fake.make_network(), "binding:host_id": "host1", "device_id": SERVER}
        port = fake.create("ports", {**values, "device_owner": "compute:nova", "project_id": "demo"})
        assert (port["status"], port["binding:vif_type"]) == (status, "ovs")
        fake.plug(port["id"])
        assert fake.port(port["id"])["status"] == "ACTIVE"
        assert fake.events[-1] == {
            "name": "network-vif-plugged", "server_uuid": SERVER, "tag": port["id"], "status": "completed"
        }  # fmt: skip


def test_a_binding_fails_on_a_host_without_network_agent(fake: FakeNeutron) -> None:
    fake.ports.unbindable.add("host1")
    port = fake.create("ports", {"network_id": fake.make_network(), "binding:host_id": "host1"})
    assert (port["status"], port["binding:vif_type"]) == ("DOWN", "binding_failed")


def test_bindings_are_made_activated_and_removed(fake: FakeNeutron) -> None:
    port = fake.make_port(fake.make_network(), **{"binding:host_id": "host1"})
    asked = {"binding": {"host": "host2", "vnic_type": "normal", "profile": {"a": 1}}}
    assert fake.call("POST", f"/ports/{port}/bindings", asked)["binding"]["status"] == "INACTIVE"
    with pytest.raises(Conflict, match="already exists"):
        fake.call("POST", f"/ports/{port}/bindings", asked)
    assert fake.call("PUT", f"/ports/{port}/bindings/host2/activate")["binding"]["status"] == "ACTIVE"
    assert fake.port(port)["binding:host_id"] == "host2"
    fake.call("DELETE", f"/ports/{port}/bindings/host1")
    assert [each["host"] for each in fake.call("GET", f"/ports/{port}/bindings")["bindings"]] == ["host2"]
    with pytest.raises(NotFound):
        fake.call("DELETE", f"/ports/{port}/bindings/host1")
    with pytest.raises(Forbidden):
        fake.call("POST", f"/ports/{port}/bindings", asked, token="demo-token")
    assert fake.faults.count("POST ports/bindings") == 3


def test_users_see_what_is_theirs_shared_or_external(fake: FakeNeutron) -> None:
    own, foreign = fake.make_network("own"), fake.make_network("foreign", "other")
    shared, external = fake.make_network("shared", "other", shared=True), fake.make_external()
    granted = fake.make_network("granted", "other")
    fake.create("rbac-policies", {"object_id": granted, "action": "access_as_shared", "target_tenant": "demo"})
    seen = {each["id"] for each in fake.list("networks", token="demo-token")}
    assert seen == {own, shared, external, granted}
    for network in (foreign, external):
        with pytest.raises((NotFound, Forbidden)):
            fake.create("ports", {"network_id": network}, token="demo-token")
    assert fake.create("ports", {"network_id": granted}, token="demo-token")["project_id"] == "demo"
    with pytest.raises(NotFound, match="could not be found"):
        fake.show("ports", fake.make_port(shared, "other"), token="demo-token")
    with pytest.raises(Unavailable):
        fake.list("networks", token="unknown")


def test_filters_match_any_value_and_fields_choose_attributes(fake: FakeNeutron) -> None:
    network = fake.make_network()
    ports = [fake.make_port(network, name=name) for name in "abc"]
    found = fake.list("ports", id=ports[:2], name=["a", "c"], fields=["id", "fixed_ips"])
    assert found == [{"id": ports[0], "fixed_ips": fake.port(ports[0])["fixed_ips"]}]
    assert [each["id"] for each in fake.list("ports", fixed_ips=["ip_address=10.1.0.3"])] == [ports[1]]
    assert fake.list("networks", shared=False, fields=["id"]) == [{"id": network}]


def test_addresses_and_mac_addresses_are_used_once(fake: FakeNeutron) -> None:
    network = fake.make_network(v4="10.1.0.0/29")
    fixed = [{"ip_address": "10.1.0.4"}]
    port = fake.create("ports", {"network_id": network, "fixed_ips": fixed})
    with pytest.raises(Conflict, match="already allocated"):
        fake.create("ports", {"network_id": network, "fixed_ips": fixed})
    with pytest.raises(Conflict, match="mac address"):
        fake.create("ports", {"network_id": network, "mac_address": port["mac_address"]})
    with pytest.raises(InvalidRequest, match="is not a valid IP"):
        fake.create("ports", {"network_id": network, "fixed_ips": [{"ip_address": "10.2.0.4"}]})
    for _ in range(4):
        fake.make_port(network)
    with pytest.raises(Conflict, match="No more IP addresses"):
        fake.create("ports", {"network_id": network})


def test_quota_of_ports(fake: FakeNeutron) -> None:
    network = fake.make_network()
    fake.set_quota("demo", port=1)
    fake.create("ports", {"network_id": network}, token="demo-token")
    with pytest.raises(OverQuota):
        fake.create("ports", {"network_id": network}, token="demo-token")
    assert fake.call("GET", "/quotas/demo", token="demo-token")["quota"]["port"] == 1
    details = fake.call("GET", "/quotas/demo/details.json", token="demo-token")["quota"]["port"]
    assert details == {"limit": 1, "used": 1, "reserved": 0}


def test_security_groups_in_use_and_their_rules(fake: FakeNeutron) -> None:
    group = fake.create("security-groups", {"name": "web"}, token="demo-token")
    rule = {"security_group_id": group["id"], "protocol": "tcp", "port_range_min": 80, "port_range_max": 80}
    made = fake.create("security-group-rules", rule, token="demo-token")
    with pytest.raises(Conflict, match=made["id"]):
        fake.create("security-group-rules", rule, token="demo-token")
    assert made in fake.show("security-groups", group["id"], token="demo-token")["security_group_rules"]
    port = fake.make_port(fake.make_network(), security_groups=[group["id"]])
    with pytest.raises(Conflict, match="in use"):
        fake.delete("security-groups", group["id"], token="demo-token")
    fake.delete("ports", port)
    fake.delete("security-groups", group["id"], token="demo-token")
    assert [each["name"] for each in fake.list("security-groups", token="demo-token")] == ["default"]


def test_floating_addresses_follow_ports(fake: FakeNeutron) -> None:
    external, port = fake.make_external(), fake.make_port(fake.make_network())
    floating = fake.create("floatingips", {"floating_network_id": external}, token="demo-token")
    used = fake.update("floatingips", floating["id"], {"port_id": port}, token="demo-token")
    assert (used["fixed_ip_address"], used["status"]) == ("10.1.0.2", "ACTIVE")
    assert fake.list("floatingips", port_id=[port]) == [used]
    fake.delete("ports", port)
    assert fake.show("floatingips", floating["id"])["port_id"] is None
    fake.delete("floatingips", floating["id"], token="demo-token")
    assert fake.list("ports", network_id=external) == []


def test_topology_is_made_on_request(fake: FakeNeutron) -> None:
    path = "/auto-allocated-topology/demo"
    with pytest.raises(Conflict):
        fake.call("GET", f"{path}?fields=dry-run", token="demo-token")
    fake.make_external()
    assert fake.call("GET", f"{path}?fields=dry-run", token="demo-token")["auto_allocated_topology"]["id"]
    made = fake.call("GET", path, token="demo-token")["auto_allocated_topology"]["id"]
    assert fake.call("GET", path, token="demo-token")["auto_allocated_topology"]["id"] == made
    assert fake.show("networks", made, token="demo-token")["project_id"] == "demo"


def test_planned_faults(fake: FakeNeutron) -> None:
    values = {"network_id": fake.make_network(), "device_id": SERVER}
    for fault, made in ((Fault.LATE, 1), (Fault.LOST, 1), (Fault.ERROR, 1), (Fault.CONFLICT, 1), (Fault.TWICE, 3)):
        fake.faults.plan("POST ports", fault)
        try:
            fake.create("ports", values)
        except Conflict:
            assert fault is Fault.CONFLICT
        except Unavailable:
            assert fault in {Fault.LATE, Fault.LOST, Fault.ERROR}
        else:
            assert fault is Fault.TWICE
        assert len(fake.ports_of(SERVER)) == made
    assert fake.faults.counts() == {"POST ports": 5}


def test_events_go_to_the_listener() -> None:
    heard: list[str] = []
    fake = FakeNeutron(send_events=lambda event: heard.append(f"{event['name']} {event['server_uuid']}"))
    port = fake.make_port(fake.make_network(), device_id=SERVER, device_owner="compute:nova")
    fake.delete("ports", port)
    assert heard == [f"network-changed {SERVER}", f"network-vif-deleted {SERVER}"]
