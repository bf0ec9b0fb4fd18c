# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace

import pytest

from kilonova.errors import Conflict, InvalidRequest, NotFound, OverQuota, PortBindingFailed, Unavailable
from kilonova.model.network_info import NetworkInfo
from kilonova.model.network_request import NetworkMode, NetworkRequest, RequestedNetwork
from kilonova.network import ports
from kilonova.network.port_owner import PortOwner
from support.fake_neutron import FakeNeutron, Fault

OWNER = PortOwner(instance_uuid="11111111-1111-4111-8111-111111111111", project_id="demo", zone="nova")
OTHER = replace(OWNER, instance_uuid="22222222-2222-4222-8222-222222222222")
HOST = "host1"


@pytest.fixture
def fake() -> FakeNeutron:
    return FakeNeutron(extensions=["dns-integration"])


def asks(*items: RequestedNetwork | str, groups: tuple[str, ...] = ()) -> NetworkRequest:
    """Return a request for new ports on networks, or for other items."""
    networks = tuple(RequestedNetwork(network_id=each) if isinstance(each, str) else each for each in items)
    return NetworkRequest(mode=NetworkMode.LISTED, networks=networks, security_groups=groups)


def create(fake: FakeNeutron, request: NetworkRequest, *, repeated: bool = False) -> NetworkInfo:
    return ports.create_ports(fake, OWNER, request, HOST, repeated=repeated)


def user_port(fake: FakeNeutron, **values: object) -> tuple[str, RequestedNetwork]:
    network = fake.make_network()
    port = fake.make_port(network, **values)
    return port, RequestedNetwork(network_id=network, port_id=port)


def test_a_new_port_is_made_and_bound_by_one_request(fake: FakeNeutron) -> None:
    network = fake.make_dual_stack()
    group = fake.create("security-groups", {"name": "web", "project_id": "demo"})["id"]
    fake.faults.calls.clear()
    owner = replace(OWNER, hostname="web-1")
    (vif,) = ports.create_ports(fake, owner, asks(network, groups=(group,)), HOST, repeated=False)
    port = fake.port(vif.port_id)
    assert (port["device_id"], port["device_owner"], port["project_id"]) == (
        OWNER.instance_uuid,
        "compute:nova",
        "demo",
    )
    assert (port["binding:host_id"], port["security_groups"], port["dns_name"]) == (HOST, [group], "web-1")
    assert (vif.created, vif.active, vif.vif_type, vif.network.label) == (True, True, "ovs", "private")
    assert [address.address for _, address in vif.addresses] == [each["ip_address"] for each in port["fixed_ips"]]
    assert fake.faults.count("POST") == 1
    assert fake.faults.count("PUT") == 0


def test_interfaces_have_the_requested_order_addresses_and_tags(fake: FakeNeutron) -> None:
    given, item = user_port(fake)
    network = fake.make_network("other", v4="10.2.0.0/24")
    asked = RequestedNetwork(network_id=network, address="10.2.0.77", tag="nic2")
    info = create(fake, asks(asked, item, network))
    assert [vif.network.label for vif in info] == ["other", "private", "other"]
    assert next(info[0].addresses)[1].address == "10.2.0.77"
    assert [(vif.created, vif.tag) for vif in info] == [(True, "nic2"), (False, None), (True, None)]
    assert (info[1].port_id, fake.port(given)["device_id"]) == (given, OWNER.instance_uuid)


def test_the_dns_name_is_left_to_the_user_if_the_network_has_a_domain_or_the_extension_is_missing() -> None:
    owner = replace(OWNER, hostname="web-1")
    for extensions, domain in ((["dns-integration"], "example.org."), ([], "")):
        fake = FakeNeutron(extensions=extensions)
        network = fake.make_network(dns_domain=domain)
        (vif,) = ports.create_ports(fake, owner, asks(network), HOST, repeated=False)
        assert fake.port(vif.port_id)["dns_name"] == ""


@pytest.mark.parametrize("fault", [Fault.LATE, Fault.LOST, Fault.ERROR])
def test_a_repeated_attempt_adopts_what_an_earlier_one_made(fake: FakeNeutron, fault: Fault) -> None:
    _, item = user_port(fake)
    request = asks(fake.make_network("a", v4="10.2.0.0/24"), item, fake.make_network("b", v4="10.3.0.0/24"))
    for call in ("POST ports", "PUT ports"):
        fake.faults.plan(call, fault)
        with pytest.raises(Unavailable):
            create(fake, request, repeated=True)
    info = create(fake, request, repeated=True)
    assert [vif.port_id for vif in create(fake, request, repeated=True)] == [vif.port_id for vif in info]
    assert {each["id"] for each in fake.ports_of(OWNER.instance_uuid)} == {vif.port_id for vif in info}


def test_a_port_that_was_made_twice_is_deleted_by_the_next_attempt_or_with_the_server(fake: FakeNeutron) -> None:
    request = asks(fake.make_network())
    fake.faults.plan("POST ports", Fault.TWICE)
    create(fake, request)
    assert len(fake.ports_of(OWNER.instance_uuid)) == 2
    (vif,) = create(fake, request, repeated=True)
    assert [each["id"] for each in fake.ports_of(OWNER.instance_uuid)] == [vif.port_id]
    ports.delete_ports(fake, OWNER, ())
    assert fake.ports_of(OWNER.instance_uuid) == []


def test_a_change_that_arrives_twice_is_made_once(fake: FakeNeutron) -> None:
    port, item = user_port(fake, **{"binding:profile": {"migrating_to": "host9"}})
    fake.faults.plan("PUT ports", Fault.TWICE)
    (vif,) = create(fake, asks(item))
    assert (vif.active, vif.profile) == (True, {})
    fake.faults.plan("PUT ports", Fault.TWICE)
    ports.delete_ports(fake, OWNER, [port])
    assert fake.port(port)["device_id"] == ""


def test_ports_of_other_projects_are_never_adopted_shown_or_deleted(fake: FakeNeutron) -> None:
    network = fake.make_network(shared=True)
    values = {"device_id": OWNER.instance_uuid, "device_owner": "compute:nova"}
    foreign = fake.make_port(network, "attacker", **values)
    info = create(fake, asks(network), repeated=True)
    assert [vif.port_id for vif in info] != [foreign]
    assert ports.refresh(fake, OWNER, info) == info
    ports.delete_ports(fake, OWNER, ())
    assert [each["id"] for each in fake.ports_of(OWNER.instance_uuid)] == [foreign]


def test_a_port_of_another_project_or_server_is_refused(fake: FakeNeutron) -> None:
    network = fake.make_network()
    foreign = fake.make_port(network, "other")
    used = fake.make_port(network, device_id=OTHER.instance_uuid)
    for port, error in ((foreign, NotFound), (used, Conflict), ("missing", NotFound)):
        with pytest.raises(error, match=port):
            create(fake, asks(RequestedNetwork(network_id=network, port_id=port)))
    assert fake.faults.count("PUT") == 0


def test_a_port_goes_to_one_of_two_servers_that_take_it_at_once(fake: FakeNeutron) -> None:
    """The second server has read the port before the first one takes it."""
    port, item = user_port(fake)

    def other_server(call: str) -> None:
        if call == "PUT ports":
            fake.before_call = None
            ports.create_ports(fake, OTHER, asks(item), "host2", repeated=False)

    fake.before_call = other_server
    with pytest.raises(Conflict, match="still in use"):
        create(fake, asks(item))
    assert fake.port(port)["device_id"] == OTHER.instance_uuid


def test_a_change_of_the_status_does_not_hinder_a_release(fake: FakeNeutron) -> None:
    port, item = user_port(fake)
    create(fake, asks(item))

    def change(call: str) -> None:
        if call == "PUT ports":
            fake.before_call = None
            fake.update("ports", port, {"description": "other"})

    fake.before_call = change
    ports.delete_ports(fake, OWNER, [port])
    assert fake.port(port)["device_id"] == ""


def test_the_release_of_a_port_that_is_on_another_server_by_now_leaves_it_there(fake: FakeNeutron) -> None:
    port, item = user_port(fake)
    (vif,) = create(fake, asks(item))

    def move(call: str) -> None:
        if call == "PUT ports":
            fake.before_call = None
            fake.update("ports", port, {"device_id": OTHER.instance_uuid})

    fake.before_call = move
    ports.detach_port(fake, OWNER, vif)
    assert fake.port(port)["device_id"] == OTHER.instance_uuid


def test_a_name_in_the_dns_must_be_the_hostname(fake: FakeNeutron) -> None:
    port, item = user_port(fake, dns_name="mail")
    with pytest.raises(InvalidRequest, match="does not match instance's hostname web-1"):
        ports.create_ports(fake, replace(OWNER, hostname="web-1"), asks(item), HOST, repeated=False)
    ports.create_ports(fake, replace(OWNER, hostname="mail"), asks(item), HOST, repeated=False)
    ports.delete_ports(fake, OWNER, [port])
    assert fake.port(port)["dns_name"] == ""


def test_a_failed_binding_raises_and_its_port_is_deleted_by_the_undo(fake: FakeNeutron) -> None:
    given, item = user_port(fake)
    fake.ports.unbindable.add(HOST)
    for request in (asks(item), asks(item.network_id)):
        with pytest.raises(PortBindingFailed, match="please check neutron logs"):
            create(fake, request)
    ports.delete_ports(fake, OWNER, request.user_ports | {given})
    assert fake.ports_of(OWNER.instance_uuid) == []
    assert fake.port(given)["binding:host_id"] == ""
    fake.ports.unbindable.clear()
    assert create(fake, asks(item))[0].vif_type == "ovs"


def test_refusals_have_the_messages_of_the_compute_api(fake: FakeNeutron) -> None:
    network = fake.make_network(v4="10.1.0.0/30")
    outside = RequestedNetwork(network_id=network, address="10.9.0.1")
    inside = replace(outside, address="10.1.0.2")
    with pytest.raises(NotFound, match="Network missing could not be found"):
        create(fake, asks("missing"))
    with pytest.raises(InvalidRequest, match=f"Fixed IP 10.9.0.1 is not a valid ip address for network {network}"):
        create(fake, asks(outside))
    create(fake, asks(inside))
    with pytest.raises(Conflict, match=r"Fixed IP 10\.1\.0\.2 is already in use"):
        create(fake, asks(inside))
    with pytest.raises(Conflict, match="No fixed IP addresses available for network"):
        create(fake, asks(network))
    fake.set_quota("demo", port=1)
    with pytest.raises(OverQuota, match="Maximum number of ports exceeded"):
        create(fake, asks(network))


def test_deletion_releases_ports_of_the_user_and_tries_all(fake: FakeNeutron) -> None:
    given, item = user_port(fake, **{"binding:profile": {"trusted": "true", "pci_slot": "0000:00:01.0"}})
    create(fake, asks(fake.make_network("a", v4="10.2.0.0/24"), item))
    fake.faults.plan("DELETE ports", Fault.ERROR)
    with pytest.raises(Unavailable):
        ports.delete_ports(fake, OWNER, [given])
    port = fake.port(given)
    assert (port["device_id"], port["device_owner"], port["binding:host_id"]) == ("", "", "")
    assert port["binding:profile"] == {"trusted": "true"}
    ports.delete_ports(fake, OWNER, [given])
    ports.delete_ports(fake, OWNER, [given])
    assert fake.ports_of(OWNER.instance_uuid) == []


def test_ports_move_with_their_server(fake: FakeNeutron) -> None:
    info = create(fake, asks(fake.make_network(), fake.make_network("b", v4="10.2.0.0/24")))
    without = ports.unbind(fake, OWNER, info)
    assert [(vif.vif_type, vif.active) for vif in without] == [("unbound", False)] * 2
    assert {each["device_id"] for each in fake.ports_of(OWNER.instance_uuid)} == {OWNER.instance_uuid}
    moved = ports.rebind(fake, replace(OWNER, zone="az2"), without, "host2")
    assert moved == info
    assert {each["binding:host_id"] for each in fake.ports_of(OWNER.instance_uuid)} == {"host2"}
    assert {each["device_owner"] for each in fake.ports_of(OWNER.instance_uuid)} == {"compute:az2"}
    before = fake.faults.count("PUT")
    assert ports.rebind(fake, replace(OWNER, zone="az2"), moved, "host2") == moved
    assert fake.faults.count("PUT") == before
    fake.delete("ports", info[0].port_id)
    assert [vif.port_id for vif in ports.rebind(fake, OWNER, moved, HOST)] == [info[1].port_id]


def test_a_refresh_drops_ports_that_are_gone_and_shows_new_floating_addresses(fake: FakeNeutron) -> None:
    given, item = user_port(fake)
    info = create(fake, asks(item, item.network_id))
    values = {"floating_network_id": fake.make_external(), "port_id": info[1].port_id, "project_id": "demo"}
    floating = fake.create("floatingips", values)["floating_ip_address"]
    fake.update("ports", given, {"device_id": ""})
    (vif,) = ports.refresh(fake, OWNER, info)
    assert (vif.port_id, vif.created, [address.floating for _, address in vif.addresses]) == (
        info[1].port_id, True, [(floating,)]
    )  # fmt: skip
    calls = len(fake.faults.calls)
    assert ports.refresh(fake, OWNER, ()) == ()
    assert len(fake.faults.calls) == calls


def test_one_interface_is_attached_and_detached(fake: FakeNeutron) -> None:
    network = fake.make_network()
    info = create(fake, asks(network))
    given = fake.make_port(network)
    for item, created in (
        (RequestedNetwork(network_id=network), True),
        (RequestedNetwork(network_id=network, port_id=given, tag="t"), False),
    ):
        fake.faults.plan("POST ports" if created else "PUT ports", Fault.LATE)
        with pytest.raises(Unavailable):
            ports.attach_port(fake, OWNER, info, item, HOST, repeated=False)
        vif = ports.attach_port(fake, OWNER, info, item, HOST, repeated=True)
        assert (vif.created, vif.tag, vif.active) == (created, item.tag, True)
        assert len(fake.ports_of(OWNER.instance_uuid)) == 2
        for _ in range(2):
            ports.detach_port(fake, OWNER, vif)
        assert [each["id"] for each in fake.ports_of(OWNER.instance_uuid)] == [info[0].port_id]
    assert fake.port(given)["device_id"] == ""
