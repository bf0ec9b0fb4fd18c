# SPDX-License-Identifier: Apache-2.0
import pytest

from kilonova.errors import NotFound
from kilonova.network.device_ports import DevicePort, device_ports, page
from kilonova.network.port_owner import mark_of
from support.fake_neutron import FakeNeutron


def test_ports_with_a_device_are_described() -> None:
    neutron = FakeNeutron()
    network = neutron.make_network()
    plain = {"network_id": network, "project_id": "p"}
    neutron.create("ports", plain)
    of_server = {"device_id": "s", "device_owner": "compute:nova", "binding:host_id": "h", "description": mark_of("s")}
    made = neutron.create("ports", {**plain, **of_server})["id"]
    other = neutron.create("ports", {**plain, **of_server, "device_id": "t"})["id"]
    router = neutron.create("ports", {**plain, "device_id": "r", "device_owner": "network:router_interface"})["id"]
    ids = sorted(neutron.store["ports"])
    found = {port.id: port for port in device_ports(neutron, ids)}
    assert found.keys() == {made, other, router}
    assert found[made] == DevicePort(
        id=made, device_id="s", project_id="p", host="h", created_at=None, is_of_server=True, created=True
    )
    assert not found[other].created
    assert (found[router].is_of_server, found[router].host) == (False, None)
    assert [port.id for port in device_ports(neutron, [router])] == [router]
    assert list(device_ports(neutron, [])) == []
    first, second = page(neutron, None, 3), page(neutron, ids[2], 3)
    assert (first.ids, second.ids) == (tuple(ids[:3]), tuple(ids[3:]))
    assert {port.id: port for port in (*first.ports, *second.ports)} == found
    assert page(neutron, ids[-1], 3) == ((), ())
    with pytest.raises(NotFound):
        page(neutron, "gone", 3)
