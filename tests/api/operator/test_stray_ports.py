# SPDX-License-Identifier: Apache-2.0
"""The operator API about stray ports, in front of a whole control process with a network service."""

from datetime import timedelta

import pytest

from kilonova.identifiers import new_uuid
from kilonova.network.port_owner import mark_of
from support.control import Control
from support.fake_neutron import Fault


@pytest.fixture
def late(networked_control: Control) -> str:
    """A port that the network service created after the delete of its server."""
    control, neutron = networked_control, networked_control.neutron
    network = neutron.make_network(project_id="wonder")
    server = str(control.boot(networks=[{"uuid": network}])["id"])
    assert control.member.delete(f"/servers/{server}").status == 204
    control.settle()
    owned = {"device_id": server, "device_owner": "compute:nova", "description": mark_of(server)}
    return str(neutron.create("ports", {"network_id": network, "project_id": "wonder", **owned})["id"])


def test_a_late_port_is_listed_and_deleted(networked_control: Control, late: str) -> None:
    operator = networked_control.operator
    (stray,) = operator.get("/stray-ports").body["stray_ports"]
    assert (stray["port"], stray["reason"], stray["removable"]) == (late, "deleted", True)
    assert "was deleted" in stray["what"]
    assert operator.post("/stray-ports/remove", {"remove": {"port": late}}).status == 204
    assert operator.get("/stray-ports").body == {"stray_ports": []}
    assert operator.post("/stray-ports/remove", {"remove": {"port": late}}).status == 404
    assert operator.post("/stray-ports/remove", {"remove": {"port": "x"}}).status == 400


def test_a_port_of_another_cloud_is_kept(networked_control: Control) -> None:
    neutron, device = networked_control.neutron, new_uuid()
    network = neutron.make_network()
    owned = {"device_id": device, "device_owner": "compute:nova", "description": mark_of(device)}
    port = neutron.create("ports", {"network_id": network, **owned})["id"]
    assert networked_control.operator.post("/stray-ports/remove", {"remove": {"port": port}}).status == 409


def test_without_an_answer_of_the_network_service(networked_control: Control, control: Control) -> None:
    networked_control.neutron.faults.plan("GET ports", Fault.LOST)
    assert networked_control.operator.get("/stray-ports").status == 503
    assert control.operator.get("/stray-ports").status == 409


def test_the_list_has_pages(networked_control: Control) -> None:
    neutron, operator = networked_control.neutron, networked_control.operator
    network = neutron.make_network()
    ports = {neutron.make_port(network, device_id=new_uuid(), device_owner="compute:nova") for _ in range(3)}
    listed, path = [], "/stray-ports?limit=2"
    while True:
        body = operator.get(path).body
        listed += [each["port"] for each in body["stray_ports"]]
        if "stray_ports_links" not in body:
            break
        path = "/stray-ports?" + body["stray_ports_links"][0]["href"].partition("?")[2]
    assert sorted(listed) == sorted(ports)
    assert operator.get("/stray-ports?limit=0").body == {"stray_ports": []}
    gone = operator.get(f"/stray-ports?marker=port:{new_uuid()}")
    assert (gone.status, "Restart from the first page" in gone.raw.decode()) == (400, True)
    for query in ("marker=x", "limit=x", "limit=-1", "host=x"):
        refused = operator.get(f"/stray-ports?{query}")
        assert (refused.status, query.partition("=")[0] in refused.raw.decode()) == (400, True)


def test_health_and_metrics_have_the_last_count(networked_control: Control) -> None:
    neutron, operator = networked_control.neutron, networked_control.operator
    neutron.make_port(neutron.make_network(), device_id=new_uuid(), device_owner="compute:nova")
    assert operator.get("/health").body["health"]["stray_ports"] is None
    stray_ports = networked_control.process.core.conductor.operations.stray_ports
    assert stray_ports.count("me", timedelta(hours=1), lambda: False)
    shown = operator.get("/health").body["health"]["stray_ports"]
    assert shown.pop("counted_at").endswith("Z")
    assert shown == {"deleted": 0, "unknown": 1, "unused": 0, "missing": 0}
    text = operator.get("/metrics").raw.decode()
    assert 'kilonova_stray_ports{reason="unknown"} 1.0' in text
