# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

from kilonova.bundled_services.host_network import HostNetwork
from kilonova.bundled_services.tunnel_end import TunnelEnd


def test_the_bridge_of_the_first_host_connects_the_others() -> None:
    network = HostNetwork(Path("/data"), "metal")
    first, second, third = (TunnelEnd(network, number, 3) for number in range(3))
    assert (first.address, third.address) == ("192.168.77.1", "192.168.77.3")
    assert first.devices == ("phy1", "phy2")
    assert second.devices == third.devices == ("phy0",)


def test_without_its_bridge_a_host_has_no_address() -> None:
    assert not TunnelEnd(HostNetwork(Path("/no such folder"), "none"), 0, 2).take_address()
