# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable
from typing import Any

import pytest

from kilonova.errors import Unavailable
from kilonova.network.client import NetworkClient
from kilonova.network.leased_client import LeasedClient
from support.fake_neutron import FakeNeutron

Change = Callable[[NetworkClient, str, str, Any], object]
CHANGES: dict[str, Change] = {
    "create": lambda client, network, _port, token: client.create("ports", {"network_id": network}, token=token),
    "update": lambda client, _network, port, token: client.update("ports", port, {"name": "m"}, token=token),
    "delete": lambda client, _network, port, token: client.delete("ports", port, token=token),
    "call": lambda client, _network, port, token: client.call(
        "POST", f"/ports/{port}/bindings", {"binding": {"host": "h"}}, token=token
    ),
}


def _fake() -> tuple[FakeNeutron, str, str]:
    fake = FakeNeutron()
    fake.user("user", "demo", is_admin=True)
    network = fake.make_network()
    return fake, network, fake.make_port(network)


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_process_without_its_lease_changes_nothing(change: Change) -> None:
    fake, network, port = _fake()
    with pytest.raises(Unavailable, match="lost its lease"):
        change(LeasedClient(fake, lambda: False), network, port, None)
    assert fake.faults.calls == []
    change(LeasedClient(fake, lambda: True), network, port, None)
    assert len(fake.faults.calls) == 1


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_requests_of_users_need_no_lease(change: Change) -> None:
    fake, network, port = _fake()
    change(LeasedClient(fake, lambda: False), network, port, "user")
    assert len(fake.faults.calls) == 1


def test_requests_that_read_need_no_lease() -> None:
    fake, network, port = _fake()
    client = LeasedClient(fake, lambda: False)
    assert client.show("ports", port)["network_id"] == network
    assert [each["id"] for each in client.list("ports")] == [port]
    assert client.call("GET", "/ports?limit=1")["ports"][0]["id"] == port
