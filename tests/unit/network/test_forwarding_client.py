# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable

import pytest

from kilonova.network.cached_client import CachedClient
from kilonova.network.client import NetworkClient
from kilonova.network.forwarding_client import ForwardingClient
from kilonova.network.grouped_ports import GroupedPorts
from kilonova.network.leased_client import LeasedClient
from kilonova.network.limited_client import LimitedClient
from support.fake_neutron import FakeNeutron

FRONTS: dict[str, Callable[[NetworkClient], NetworkClient]] = {
    "forwarding": ForwardingClient,
    "cached": lambda client: CachedClient(client, extensions_s=600),
    "grouped": GroupedPorts,
    "leased": lambda client: LeasedClient(client, lambda: True),
    "limited": lambda client: LimitedClient(client, 1),
}


@pytest.mark.parametrize("front", FRONTS)
def test_every_call_is_forwarded(front: str) -> None:
    fake = FakeNeutron()
    client = FRONTS[front](fake)
    network = client.create("networks", {"name": "n", "project_id": "p"})["id"]
    assert client.update("networks", network, {"name": "m"})["name"] == "m"
    port = client.create("ports", {"network_id": network})["id"]
    assert client.update("ports", port, {"name": "m"}, revision=1)["name"] == "m"
    binding = client.call("POST", f"/ports/{port}/bindings", {"binding": {"host": "h"}})
    assert binding["binding"]["status"] == "INACTIVE"
    client.delete("ports", port)
    assert client.list("networks", name="m")[0] == client.show("networks", network)
    client.delete("networks", network)
    assert client.list("networks") == []
