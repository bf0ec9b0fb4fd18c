# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest

from kilonova.errors import NotFound, PortBindingFailed, Unavailable
from kilonova.model.network_info import NetworkInfo
from kilonova.model.network_request import NetworkMode, NetworkRequest, RequestedNetwork
from kilonova.network import bindings, ports
from kilonova.network.port_owner import PortOwner
from support.fake_neutron import FakeNeutron, Fault

OWNER = PortOwner(instance_uuid="11111111-1111-4111-8111-111111111111", project_id="demo", zone="nova")


@pytest.fixture
def fake() -> FakeNeutron:
    return FakeNeutron()


@pytest.fixture
def info(fake: FakeNeutron) -> NetworkInfo:
    """Interfaces of a server on host1: a new port, and one of the user with a profile."""
    network = fake.make_network()
    given = fake.make_port(network, **{"binding:profile": {"trusted": "true", "pci_slot": "0000:00:01.0"}})
    items = (RequestedNetwork(network_id=network), RequestedNetwork(network_id=network, port_id=given))
    request = NetworkRequest(mode=NetworkMode.LISTED, networks=items)
    return ports.create_ports(fake, OWNER, request, "host1", repeated=False)


def bound(fake: FakeNeutron, port_id: str) -> dict[str, str]:
    return {each["host"]: each["status"] for each in fake.call("GET", f"/ports/{port_id}/bindings")["bindings"]}


def hosts(fake: FakeNeutron) -> set[str]:
    return {each["binding:host_id"] for each in fake.ports_of(OWNER.instance_uuid)}


def profiles(fake: FakeNeutron) -> list[Any]:
    return [each["binding:profile"] for each in fake.ports_of(OWNER.instance_uuid)]


def test_ports_move_with_a_live_migration(fake: FakeNeutron, info: NetworkInfo) -> None:
    fake.ports.vif_type = "bridge"  # another mechanism at the destination
    there = bindings.prepare(fake, OWNER, info, "host2")
    assert [(vif.vif_type, vif.profile) for vif in there] == [("bridge", {}), ("bridge", {"trusted": "true"})]
    assert [each["migrating_to"] for each in profiles(fake)] == ["host2", "host2"]
    assert bound(fake, info[0].port_id) == {"host1": "ACTIVE", "host2": "INACTIVE"}
    moved = bindings.activate(fake, OWNER, info, "host2")
    assert (hosts(fake), [vif.vif_type for vif in moved]) == ({"host2"}, ["bridge", "bridge"])
    bindings.remove(fake, OWNER, info, "host1")
    assert bound(fake, info[0].port_id) == {"host2": "ACTIVE"}
    assert profiles(fake) == [{"trusted": "true"}, {}]


@pytest.mark.parametrize("fault", [Fault.LATE, Fault.LOST])
def test_every_step_may_be_repeated(fake: FakeNeutron, info: NetworkInfo, fault: Fault) -> None:
    for call, step in (
        ("POST ports/bindings", lambda: bindings.prepare(fake, OWNER, info, "host2")),
        ("PUT ports/bindings/activate", lambda: bindings.activate(fake, OWNER, info, "host2")),
        ("DELETE ports/bindings", lambda: bindings.remove(fake, OWNER, info, "host1")),
    ):
        fake.faults.plan(call, fault)
        with pytest.raises(Unavailable):
            step()
        step()
        step()
    assert bound(fake, info[1].port_id) == {"host2": "ACTIVE"}
    assert hosts(fake) == {"host2"}


def test_a_migration_that_fails_leaves_the_ports_as_they_were(fake: FakeNeutron, info: NetworkInfo) -> None:
    before = fake.ports_of(OWNER.instance_uuid)
    bindings.prepare(fake, OWNER, info, "host2")
    bindings.remove(fake, OWNER, info, "host2")
    after = fake.ports_of(OWNER.instance_uuid)
    assert [{**each, "revision_number": 0} for each in after] == [{**each, "revision_number": 0} for each in before]
    assert bound(fake, info[0].port_id) == {"host1": "ACTIVE"}
    bindings.remove(fake, OWNER, info, "host1")
    assert hosts(fake) == {"host1"}


def test_a_host_without_network_agent_cannot_take_the_ports(fake: FakeNeutron, info: NetworkInfo) -> None:
    fake.ports.unbindable.add("host2")
    with pytest.raises(PortBindingFailed):
        bindings.prepare(fake, OWNER, info, "host2")
    with pytest.raises(NotFound, match="Binding for port"):
        bindings.activate(fake, OWNER, info, "host2")


def test_ports_that_were_deleted_are_left_out(fake: FakeNeutron, info: NetworkInfo) -> None:
    bindings.prepare(fake, OWNER, info, "host2")
    fake.delete("ports", info[0].port_id)
    assert [vif.port_id for vif in bindings.prepare(fake, OWNER, info, "host2")] == [info[1].port_id]
    assert [vif.port_id for vif in bindings.activate(fake, OWNER, info, "host2")] == [info[1].port_id]
    bindings.remove(fake, OWNER, info, "host1")
