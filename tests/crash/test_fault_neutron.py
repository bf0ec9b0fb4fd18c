# SPDX-License-Identifier: Apache-2.0
"""Tests of the network service of the fault test."""

from collections.abc import Iterator
from typing import Any

import pytest
import requests

from crash.fault_neutron import FaultyNeutron
from support.waiting import wait_until

_SERVER = "3e1b0f0e-5a5e-4f0c-9c57-8c9a9a2f7f10"


@pytest.fixture
def served() -> Iterator[tuple[FaultyNeutron, list[Any]]]:
    """Fixture: the service, and the events that it has sent."""
    neutron, sent = FaultyNeutron("1"), []

    def call(method: str, path: str, body: Any) -> tuple[int, Any]:
        sent.append((method, path, body))
        return 200, None

    neutron.start(call)
    yield neutron, sent
    neutron.stop()


def _create(neutron: FaultyNeutron) -> requests.Response:
    port = {"network_id": neutron.networks.ids[0], "device_id": _SERVER, "device_owner": "compute:nova"}
    ports = {"ports": [{**port, "binding:host_id": "node1"}]}
    url = f"http://127.0.0.1:{neutron.proxy.port}/v2.0/ports"
    return requests.post(url, json=ports, headers={"X-Auth-Token": "notused"}, timeout=30)


def test_a_bound_port_is_plugged_later_and_the_event_is_sent(served: tuple[FaultyNeutron, list[Any]]) -> None:
    neutron, sent = served
    answer = _create(neutron)
    assert answer.status_code == 201
    assert [port["status"] for port in answer.json()["ports"]] == ["DOWN"]
    plugged = {"name": "network-vif-plugged", "server_uuid": _SERVER, "tag": answer.json()["ports"][0]["id"]}
    wait_until(lambda: any(plugged.items() <= event.items() for *_, body in sent for event in body["events"]), "plug")
    assert neutron.unsure == set()


def test_ports_are_unsure_if_their_creation_may_not_have_been_answered(
    served: tuple[FaultyNeutron, list[Any]],
) -> None:
    neutron, _ = served
    neutron.share = 1.0
    statuses = {_create(neutron).status_code for _ in range(100)}
    assert statuses == {201, 409, 503}
    made = {port["id"] for port in neutron.fake.ports_of(_SERVER)}
    assert made
    assert neutron.unsure == made
    neutron.share = 0.0
    neutron.begin_trouble()
    _create(neutron)
    assert len(neutron.unsure) == len(made) + 1


def test_a_service_that_refuses_connections(served: tuple[FaultyNeutron, list[Any]]) -> None:
    neutron, _ = served
    neutron.proxy.refuses = True
    with pytest.raises(requests.ConnectionError):
        _create(neutron)
    neutron.proxy.refuses = False
    assert _create(neutron).status_code == 201
