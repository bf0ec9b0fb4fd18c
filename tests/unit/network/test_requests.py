# SPDX-License-Identifier: Apache-2.0
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from kilonova.errors import Conflict, Forbidden, InvalidRequest, KilonovaError, NotFound
from kilonova.model.network_request import NO_NETWORKS, NetworkRequest, RequestedNetwork
from kilonova.network.requests import read_interface, read_request
from support.fake_neutron import FakeNeutron

TOKEN = "demo-token"


@pytest.fixture
def fake() -> FakeNeutron:
    fake = FakeNeutron()
    fake.user(TOKEN, "demo")
    fake.user("admin-token", "admin", is_admin=True)
    return fake


def read(
    fake: FakeNeutron,
    networks: str | Sequence[Mapping[str, Any]] | None,
    *groups: str,
    count: int = 1,
    external: bool = False,
) -> NetworkRequest:
    return read_request(fake, TOKEN, "demo", networks, groups, count, external_allowed=external)


def refusal(
    fake: FakeNeutron, *networks: Mapping[str, Any], groups: Sequence[str] = (), count: int = 1
) -> KilonovaError:
    with pytest.raises(KilonovaError) as caught:
        read(fake, networks, *groups, count=count)
    return caught.value


def ids_of(request: NetworkRequest) -> list[str]:
    return [item.network_id for item in request.networks]


def test_listed_networks_and_ports_are_completed(fake: FakeNeutron) -> None:
    first, second = fake.make_network(), fake.make_network("b", v4="10.2.0.0/24")
    port = fake.make_port(second)
    group = fake.create("security-groups", {"name": "web"}, token=TOKEN)["id"]
    asked = [{"uuid": first, "fixed_ip": "10.1.0.9", "tag": "a"}, {"port": port, "tag": "b"}, {"uuid": first}]
    request = read(fake, asked, "web", group, "default")
    default = fake.list("security-groups", name="default", project_id="demo")[0]["id"]
    assert request.networks == (
        RequestedNetwork(network_id=first, address="10.1.0.9", tag="a"),
        RequestedNetwork(network_id=second, port_id=port, tag="b"),
        RequestedNetwork(network_id=first),
    )
    assert request.security_groups == (group, default)
    assert request.user_ports == {port}


def test_one_known_network_is_checked_by_one_request(fake: FakeNeutron) -> None:
    network = fake.make_network()
    fake.faults.calls.clear()
    assert ids_of(read(fake, [{"uuid": network}], "default")) == [network]
    assert fake.faults.calls == ["GET networks"]


def test_none_means_no_networks(fake: FakeNeutron) -> None:
    fake.make_network()
    assert read(fake, "none") == NO_NETWORKS
    with pytest.raises(InvalidRequest):
        read(fake, "none", "missing")


@pytest.mark.parametrize("networks", [None, [], "auto"])
def test_without_a_list_the_only_network_is_meant(fake: FakeNeutron, networks: Any) -> None:
    external = fake.make_external()
    fake.make_network("foreign", "other")
    only = fake.make_network()
    assert ids_of(read(fake, networks)) == [only]
    fake.make_network("shared", "other", shared=True)
    with pytest.raises(Conflict, match="Multiple possible networks found, use a Network ID to be more specific"):
        read(fake, networks)
    assert external


def test_without_a_network_a_server_gets_none_or_a_topology_if_it_asks_for_one(fake: FakeNeutron) -> None:
    assert read(fake, None) == NO_NETWORKS
    with pytest.raises(InvalidRequest, match="Unable to automatically allocate a network for project demo"):
        read(fake, "auto")
    fake.make_external()
    (made,) = ids_of(read(fake, "auto"))
    assert fake.show("networks", made)["project_id"] == "demo"
    assert ids_of(read(fake, "auto")) == [made]


def test_networks_that_a_server_cannot_use(fake: FakeNeutron) -> None:
    foreign, bare = fake.make_network("foreign", "other"), fake.make_network("bare", v4=None)
    open_one = fake.make_network("open", v4="10.3.0.0/24", port_security_enabled=False)
    fake.create("security-groups", {"name": "web"}, token=TOKEN)
    for network, text in (
        (foreign, f"Network {foreign} could not be found."),
        ("missing", "Network missing could not be found."),
        (bare, f"Network {bare} requires a subnet in order to boot instances on."),
    ):
        error = refusal(fake, {"uuid": network})
        assert (type(error), error.message) == (InvalidRequest, text)
    error = refusal(fake, {"uuid": open_one}, groups=["web"])
    assert isinstance(error, InvalidRequest)
    assert "port_security_enabled" in error.message
    assert ids_of(read(fake, [{"uuid": open_one}], "default")) == [open_one]


def test_external_networks_are_for_those_who_may(fake: FakeNeutron) -> None:
    external = fake.make_external()
    port = fake.make_port(external)
    for asked in ({"uuid": external}, {"port": port}):
        error = refusal(fake, asked)
        assert isinstance(error, Forbidden)
        assert error.message == f"It is not allowed to create an interface on external network {external}"
        assert ids_of(read(fake, [asked], external=True)) == [external]
    fake.update("networks", external, {"shared": True})
    assert ids_of(read(fake, [{"uuid": external}])) == [external]


def test_ports_that_a_server_cannot_use(fake: FakeNeutron) -> None:
    network = fake.make_network()
    used, foreign = fake.make_port(network, device_id="a-server"), fake.make_port(network, "other")
    bare, waiting = fake.make_port(network, fixed_ips=[]), fake.make_port(network, fixed_ips=[])
    fake.update("ports", bare, {"ip_allocation": "immediate"})
    for port, kind, text in (
        (used, Conflict, f"Port {used} is still in use."),
        (foreign, InvalidRequest, f"Port id {foreign} could not be found."),
        ("missing", InvalidRequest, "Port id missing could not be found."),
        (bare, InvalidRequest, f"Port {bare} requires a FixedIP in order to be used."),
    ):
        error = refusal(fake, {"port": port})
        assert (type(error), error.message) == (kind, text)
    assert read(fake, [{"port": waiting}]).user_ports == {waiting}


def test_an_administrator_cannot_give_a_port_of_another_project(fake: FakeNeutron) -> None:
    port = fake.make_port(fake.make_network())
    with pytest.raises(InvalidRequest, match="could not be found"):
        read_request(fake, "admin-token", "admin", [{"port": port}], (), 1, external_allowed=True)


def test_contradictory_items(fake: FakeNeutron) -> None:
    network = fake.make_network()
    port = fake.make_port(network)
    for asked, text in (
        ([{"port": port}, {"port": port}], f"Port ID '{port}' was specified twice"),
        ([{"port": port, "fixed_ip": "10.1.0.9"}], "cannot be used with port"),
        ([{"tag": "x"}], "Bad network format: missing 'uuid'"),
    ):
        error = refusal(fake, *asked)
        assert isinstance(error, InvalidRequest)
        assert text in error.message
    for several, text in (
        ({"port": port}, "with different ports"),
        ({"uuid": network, "fixed_ip": "10.1.0.9"}, "max_count"),
    ):
        error = refusal(fake, several, count=2)
        assert isinstance(error, InvalidRequest)
        assert text in error.message
    with pytest.raises(InvalidRequest, match="Bad networks format"):
        read(fake, "other")
    assert len(ids_of(read(fake, [{"uuid": network}, {"uuid": network}], count=5))) == 2


def test_an_address_that_a_port_has(fake: FakeNeutron) -> None:
    network = fake.make_network()
    fake.make_port(network, device_id="a-server", fixed_ips=[{"ip_address": "10.1.0.9"}])
    error = refusal(fake, {"uuid": network, "fixed_ip": "10.1.0.9"})
    assert isinstance(error, InvalidRequest)
    assert error.message == "Fixed IP address 10.1.0.9 is already in use on instance a-server."


def test_many_addresses_cost_one_request_and_belong_to_their_network(fake: FakeNeutron) -> None:
    first, second = fake.make_dual_stack(), fake.make_network("b", v4="10.2.0.0/24")
    fake.make_port(first, device_id="a-server", fixed_ips=[{"ip_address": "fd00:1::9"}])
    fake.make_port(second, fixed_ips=[{"ip_address": "10.2.0.9"}])
    free = [{"uuid": first, "fixed_ip": f"10.1.0.{number}"} for number in range(10, 20)]
    fake.faults.calls.clear()
    read_request(fake, TOKEN, "demo", [*free, {"uuid": second, "fixed_ip": "10.2.0.10"}], (), 1, external_allowed=False)
    assert fake.faults.counts() == {"GET networks": 1, "GET ports": 1}
    error = refusal(fake, *free, {"uuid": first, "fixed_ip": "FD00:1:0::9"})
    assert error.message == "Fixed IP address FD00:1:0::9 is already in use on instance a-server."
    error = refusal(fake, *free, {"uuid": second, "fixed_ip": "10.2.0.9"})
    assert error.message == "Fixed IP address 10.2.0.9 is already in use on instance ."


def test_an_interface_is_read_with_the_status_codes_of_its_own_request(fake: FakeNeutron) -> None:
    def interface(**values: Any) -> RequestedNetwork:
        return read_interface(fake, TOKEN, "demo", external_allowed=False, **values)

    with pytest.raises(InvalidRequest, match="none are available for project 'demo'"):
        interface()
    network = fake.make_network()
    port = fake.make_port(network, fixed_ips=[{"ip_address": "10.1.0.9"}])
    assert interface() == RequestedNetwork(network_id=network)
    assert interface(port_id=port, tag="x") == RequestedNetwork(network_id=network, port_id=port, tag="x")
    with pytest.raises(NotFound, match="Network missing could not be found"):
        interface(network_id="missing")
    with pytest.raises(Conflict, match="already in use on instance"):
        interface(network_id=network, address="10.1.0.9")
    fake.make_network("b", v4="10.2.0.0/24")
    with pytest.raises(InvalidRequest, match="Multiple possible networks"):
        interface()
