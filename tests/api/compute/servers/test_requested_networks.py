# SPDX-License-Identifier: Apache-2.0
"""Networks and security groups of POST /servers, in a cloud with a network service."""

from pathlib import Path
from typing import Any

import pytest

from kilonova.cli.wiring.core import Parts
from kilonova.db import instance_networks
from kilonova.identifiers import new_uuid
from kilonova.model.network_request import NO_NETWORKS, NetworkMode, NetworkRequest, RequestedNetwork
from kilonova.network.cached_client import CachedClient
from support.control import Control, NewControl
from support.fake_neutron import FakeNeutron, Fault
from support.network_agents import add_agent

NOBODYS = "5b674f73-0000-4000-8000-000000000000"
OWN = "wonder"


@pytest.fixture
def control(networked_control: Control) -> Control:
    return networked_control


@pytest.fixture
def neutron(control: Control) -> FakeNeutron:
    return control.neutron


def request_of(control: Control, uuid: str) -> NetworkRequest:
    with control.process.database.read() as connection:
        return instance_networks.request_of(connection, uuid)


def on(network: str, **more: str) -> NetworkRequest:
    return NetworkRequest(mode=NetworkMode.LISTED, networks=(RequestedNetwork(network_id=network, **more),))


def refusal(control: Control, **asked: Any) -> tuple[int, str]:
    """Send a request that is refused and leaves nothing behind; return status and message."""
    before = control.everything()
    answer = control.ask(**asked)
    assert control.everything() == before
    return answer.status, answer.fault[1]


@pytest.mark.parametrize("networks", ["auto", None, []])
def test_the_only_network_is_meant_without_a_list(control: Control, neutron: FakeNeutron, networks: Any) -> None:
    private = neutron.make_network(project_id=OWN)
    client = control.member if networks == "auto" else control.member.at("2.36")
    server = control.boot(client, networks=networks)
    assert request_of(control, server["id"]) == on(private)
    ((label, addresses),) = server["addresses"].items()
    (port,) = neutron.ports_of(server["id"])
    assert (label, addresses[0]["addr"]) == ("private", port["fixed_ips"][0]["ip_address"])
    assert server["security_groups"] == [{"name": "default"}]


def test_none_gives_no_interface(control: Control, neutron: FakeNeutron) -> None:
    neutron.make_network(project_id=OWN)
    server = control.boot(networks="none")
    assert (server["addresses"], request_of(control, server["id"])) == ({}, NO_NETWORKS)
    assert neutron.faults.calls == []


def test_a_list_of_networks_ports_addresses_and_tags(control: Control, neutron: FakeNeutron) -> None:
    first, second = neutron.make_network("one", OWN), neutron.make_network("two", OWN, v4="10.2.0.0/24")
    port = neutron.make_port(second, OWN)
    networks = [{"uuid": first, "fixed_ip": "10.1.0.77", "tag": "a"}, {"port": port, "tag": "b"}]
    server = control.boot(networks=networks)
    assert server["addresses"]["one"][0]["addr"] == "10.1.0.77"
    assert server["addresses"]["two"][0]["OS-EXT-IPS-MAC:mac_addr"] == neutron.port(port)["mac_address"]
    assert request_of(control, server["id"]).networks == (
        RequestedNetwork(network_id=first, address="10.1.0.77", tag="a"),
        RequestedNetwork(network_id=second, port_id=port, tag="b"),
    )


@pytest.mark.parametrize(
    ("version", "status"), [("2.31", 400), ("2.32", 202), ("2.36", 202), ("2.37", 400), ("2.42", 202)]
)
def test_tags_exist_at_some_microversions(control: Control, neutron: FakeNeutron, version: str, status: int) -> None:
    networks = [{"uuid": neutron.make_network(project_id=OWN), "tag": "nic1"}]
    assert control.ask(control.member.at(version), networks=networks).status == status
    control.settle()


def test_security_groups_by_name_and_id(control: Control, neutron: FakeNeutron) -> None:
    neutron.make_network(project_id=OWN)
    groups = [neutron.create("security-groups", {"name": name}, token="alice:wonder") for name in ("web", "mail")]
    asked = [{"name": "web"}, {"name": groups[1]["id"]}]
    answer = control.ask(security_groups=asked)
    assert answer.body["server"]["security_groups"] == asked
    control.settle()
    server = control.member.get(f"/servers/{answer.body['server']['id']}").body["server"]
    assert server["security_groups"] == [{"name": "web"}, {"name": "mail"}]


def test_a_server_on_a_known_network_costs_few_calls(new_control: NewControl) -> None:
    neutron = FakeNeutron()
    control = new_control(network=neutron, parts=Parts(network=CachedClient(neutron, extensions_s=600)))
    networks = [{"uuid": neutron.make_network(project_id=OWN)}]
    control.boot(networks=networks)
    neutron.faults.calls.clear()
    control.boot(networks=networks)
    assert neutron.faults.counts() == {"POST ports": 1}
    neutron.faults.calls.clear()
    control.boot(networks="auto")
    assert neutron.faults.counts() == {"GET networks": 2, "POST ports": 1}


BAD: dict[str, tuple[Any, int, str]] = {
    "an unknown network": ([{"uuid": NOBODYS}], 400, f"Network {NOBODYS} could not be found."),
    "an unknown port": ([{"port": NOBODYS}], 400, f"Port id {NOBODYS} could not be found."),
    "nothing": ([{}], 400, "Bad network format: missing 'uuid'"),
    "a port with an address": (
        [{"port": NOBODYS, "fixed_ip": "10.1.0.9"}],
        400,
        f"Specified Fixed IP '10.1.0.9' cannot be used with port '{NOBODYS}': the two cannot be specified together.",
    ),
    "a port twice": (
        [{"port": NOBODYS}, {"port": NOBODYS}],
        400,
        f"Port ID '{NOBODYS}' was specified twice: you cannot attach a port multiple times.",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_list_is_refused_in_nova_s_words(control: Control, case: str) -> None:
    networks, status, message = BAD[case]
    assert refusal(control, networks=networks) == (status, message)


@pytest.mark.parametrize(
    "networks", [[{"uuid": "x"}], [{"port": "x"}], [{"fixed_ip": "x"}], "some", {}, [1], [{"a": 1}]]
)
def test_a_list_of_another_form_is_refused(control: Control, networks: Any) -> None:
    assert refusal(control, networks=networks)[0] == 400


def test_several_networks_are_ambiguous(control: Control, neutron: FakeNeutron) -> None:
    neutron.make_network("one", OWN)
    neutron.make_network("two", OWN, v4="10.2.0.0/24")
    status, message = refusal(control, networks="auto")
    assert (status, message) == (409, "Multiple possible networks found, use a Network ID to be more specific.")


def test_without_any_network_the_server_has_none(control: Control) -> None:
    server = control.boot(control.member.at("2.36"), networks=None)
    assert server["addresses"] == {}


def test_ports_in_use_addresses_in_use_and_networks_without_subnets(control: Control, neutron: FakeNeutron) -> None:
    network, empty = neutron.make_network(project_id=OWN), neutron.make_network("empty", OWN, v4=None)
    used = neutron.make_port(network, OWN, device_id="other")
    address = neutron.port(used)["fixed_ips"][0]["ip_address"]
    assert refusal(control, networks=[{"port": used}]) == (409, f"Port {used} is still in use.")
    said = f"Fixed IP address {address} is already in use on instance other."
    assert refusal(control, networks=[{"uuid": network, "fixed_ip": address}]) == (400, said)
    said = f"Network {empty} requires a subnet in order to boot instances on."
    assert refusal(control, networks=[{"uuid": empty}]) == (400, said)


def test_a_network_of_another_project_does_not_exist(control: Control, neutron: FakeNeutron) -> None:
    other = neutron.make_network(project_id="elsewhere")
    port = neutron.make_port(other, "elsewhere")
    assert refusal(control, networks=[{"uuid": other}])[0] == 400
    assert refusal(control, networks=[{"port": port}])[0] == 400


def test_external_networks_are_for_administrators(control: Control, neutron: FakeNeutron) -> None:
    public = neutron.make_external()
    said = f"It is not allowed to create an interface on external network {public}"
    assert refusal(control, networks=[{"uuid": public}]) == (403, said)
    assert control.boot(control.admin, networks=[{"uuid": public}])["addresses"]["public"]


def test_one_port_or_address_cannot_go_to_several_servers(control: Control, neutron: FakeNeutron) -> None:
    network = neutron.make_network(project_id=OWN)
    port = neutron.make_port(network, OWN)
    for networks, words in (
        ([{"port": port}], "Unable to launch multiple instances with a single configured port ID"),
        ([{"uuid": network, "fixed_ip": "10.1.0.9"}], "max_count cannot be greater than 1 if an fixed_ip is specified"),
    ):
        status, message = refusal(control, networks=networks, max_count=2)
        assert status == 400
        assert words in message
    assert control.boot(networks=[{"uuid": network}], min_count=2)["addresses"]


def test_the_quota_of_ports_limits_the_number_of_servers(control: Control, neutron: FakeNeutron) -> None:
    network = neutron.make_network(project_id=OWN)
    neutron.set_quota(OWN, port=2)
    asked = {"networks": [{"uuid": network}]}
    assert refusal(control, min_count=3, **asked) == (403, "Maximum number of ports exceeded")
    control.boot(min_count=1, max_count=5, **asked)
    assert len(control.member.get("/servers").body["servers"]) == 2
    assert refusal(control, **asked) == (403, "Maximum number of ports exceeded")
    control.boot(networks="none")


def test_unknown_and_ambiguous_security_groups(control: Control, neutron: FakeNeutron) -> None:
    neutron.make_network(project_id=OWN)
    for name in ("web", "web"):
        neutron.create("security-groups", {"name": name}, token="alice:wonder")
    assert refusal(control, security_groups=[{"name": "mail"}])[0] == 400
    assert refusal(control, security_groups=[{"name": "mail"}], networks="none")[0] == 400
    assert refusal(control, security_groups=[{"name": "web"}])[0] == 409


def test_a_network_service_that_does_not_answer(control: Control, neutron: FakeNeutron) -> None:
    network = neutron.make_network(project_id=OWN)
    neutron.faults.plan("GET", Fault.ERROR)
    assert refusal(control, networks=[{"uuid": network}])[0] == 503


def test_who_may_request_networks_is_policy(new_control: NewControl, tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text('"os_compute_api:servers:create:attach_network": "rule:context_is_admin"\n')
    options = f"[oslo_policy]\npolicy_file = {tmp_path / 'policy.yaml'}\n"
    control = new_control(network=FakeNeutron(), more=options)
    network = control.neutron.make_network(shared=True)
    for networks in ("auto", [{"uuid": network}]):
        assert refusal(control, networks=networks)[0] == 403
    control.boot(networks="none")
    control.boot(control.admin, networks=[{"uuid": network}])


def guaranteed_port(neutron: FakeNeutron, **guarantee: int) -> str:
    network = neutron.make_network("guaranteed", OWN, v4="10.8.0.0/24")
    return neutron.make_port(network, OWN, qos_policy_id=neutron.make_policy(**guarantee))


@pytest.mark.parametrize("version", ["2.1", "2.71"])
def test_ports_with_guarantees_are_refused_before_2_72(control: Control, neutron: FakeNeutron, version: str) -> None:
    port = guaranteed_port(neutron, egress=1_000)
    status, message = refusal(control, client=control.member.at(version), networks=[{"port": port}])
    assert status == 400
    assert message == (
        "Creating servers with ports having resource requests, like a port with a QoS minimum bandwidth policy, is not "
        "supported until microversion 2.72."
    )
    assert control.ask(control.member.at("2.72"), networks=[{"port": port}]).status == 202
    control.settle()


def test_a_port_with_a_guarantee_gets_it_or_the_server_fails_with_the_port_s_id(
    control: Control, neutron: FakeNeutron
) -> None:
    add_agent(control.process.database, "node2", bandwidth=5_000, physical="none")
    port = guaranteed_port(neutron, egress=5_000)
    server = control.boot(networks=[{"port": port}])
    assert (server["status"], server["OS-EXT-SRV-ATTR:host"]) == ("ACTIVE", "node2")
    refused = guaranteed_port(neutron, egress=1)
    server = control.boot(networks=[{"port": refused}])
    assert server["status"] == "ERROR"
    assert f"Placement: port {refused}: 2 of 2 hosts" in server["fault"]["message"]
    explained = control.operator.get(f"/decisions/{server['id']}?hosts=true").body
    assert f"can give 1 NET_BW_EGR_KILOBIT_PER_SEC with CUSTOM_VNIC_TYPE_NORMAL to port {refused}" in str(explained)


def test_a_port_that_asks_nothing_of_hosts_costs_no_further_request(control: Control, neutron: FakeNeutron) -> None:
    port = neutron.make_port(neutron.make_network(project_id=OWN), OWN)
    neutron.faults.calls.clear()
    control.boot(networks=[{"port": port}])
    assert neutron.faults.counts()["GET ports"] == 2  # checked with the user's rights; taken
    assert "GET extensions" not in neutron.faults.counts()


def routed_network(control: Control, neutron: FakeNeutron, *hosts: str) -> str:
    """Create a network with one segment that some hosts reach, as Neutron's segments plug-in does it in Placement."""
    network, segment = neutron.make_network("routed", OWN, v4="10.8.0.0/24"), new_uuid()
    (subnet,) = neutron.store.where("subnets", network_id=network)
    subnet["segment_id"] = segment
    made = control.admin.post("/os-aggregates", {"aggregate": {"name": segment}}).body["aggregate"]
    for host in hosts:
        control.admin.post(f"/os-aggregates/{made['id']}/action", {"add_host": {"host": host}})
    assert control.placement.post("/resource_providers", {"name": segment, "uuid": segment}).status == 200
    members = {"aggregates": [made["uuid"]], "resource_provider_generation": 0}
    assert control.placement.put(f"/resource_providers/{segment}/aggregates", members).status == 200
    return network


def test_servers_are_placed_where_a_segment_of_their_network_is(new_control: NewControl) -> None:
    neutron = FakeNeutron()
    more = "[scheduler]\nquery_placement_for_routed_network_aggregates = true\n"
    control = new_control(network=neutron, more=more)
    network = routed_network(control, neutron, "node2")
    for _ in range(2):
        server = control.boot(networks=[{"uuid": network}])
        assert server["OS-EXT-SRV-ATTR:host"] == "node2"
    port = neutron.make_port(network, OWN)
    server = control.boot(networks=[{"port": port}])
    assert server["OS-EXT-SRV-ATTR:host"] == "node2"
    moved = control.admin.post(f"/servers/{server['id']}/action", {"migrate": None})
    assert moved.status == 202
    control.settle()
    server = control.admin.get(f"/servers/{server['id']}").body["server"]
    assert (server["OS-EXT-SRV-ATTR:host"], server["status"]) == ("node2", "ACTIVE"), (
        "no other host reaches the segment"
    )
    explained = control.operator.get(f"/decisions/{server['id']}?hosts=true").body
    assert f"does not reach a segment of network {network}" in str(explained)


def test_a_segment_without_an_aggregate_gets_no_server(new_control: NewControl) -> None:
    neutron = FakeNeutron()
    control = new_control(network=neutron, more="[scheduler]\nquery_placement_for_routed_network_aggregates = true\n")
    network = neutron.make_network("routed", OWN)
    (subnet,) = neutron.store.where("subnets", network_id=network)
    subnet["segment_id"] = new_uuid()
    server = control.boot(networks=[{"uuid": network}])
    assert server["status"] == "ERROR"
    assert "routed_networks_filter" in server["fault"]["message"]


def test_a_port_that_needs_an_accelerator_is_refused(control: Control, neutron: FakeNeutron) -> None:
    vnic = {"binding:vnic_type": "accelerator-direct"}
    port = neutron.make_port(neutron.make_network(project_id=OWN), OWN, **vnic)
    status, message = refusal(control, networks=[{"port": port}])
    assert (status, message) == (
        400,
        f"Port {port} needs an accelerator (accelerator-direct), but there is no accelerator service.",
    )
