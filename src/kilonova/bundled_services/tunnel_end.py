# SPDX-License-Identifier: Apache-2.0
"""One host's end of the tunnels between the hosts of real guests of one machine.

::

    host 1: br-phy ── phy1 ── veth pair ── phy0 ── br-phy of host 2
                   ── phy2 ── veth pair ── phy0 ── br-phy of host 3
"""

from collections.abc import Sequence
from typing import Protocol

from kilonova.bundled_services.host_network import HostNetwork, run
from kilonova.errors import Unavailable

#: Bridge of a host with its tunnels.
BRIDGE = "br-phy"
_NET = "192.168.77"
#: The largest number of hosts that have tunnels.
MOST_HOSTS = 16


class Tunnel(Protocol):
    """A host's end of its tunnels.

    ``address``: at which other hosts reach it. ``devices``: devices in the namespace that are ports of br-phy.
    """

    @property
    def address(self) -> str: ...
    @property
    def devices(self) -> Sequence[str]: ...
    def take_address(self) -> bool:
        """Give br-phy its address. Return whether that was possible: vswitchd creates br-phy after it has started."""


class TunnelEnd:
    """End of host ``number`` (0, 1, …) of ``hosts`` hosts, with the address ``address`` in namespace ``network``."""

    def __init__(self, network: HostNetwork, number: int, hosts: int) -> None:
        self._network = network
        self.address = f"{_NET}.{number + 1}"
        #: Devices that are ports of br-phy.
        self.devices = tuple(f"phy{other}" for other in range(1, hosts)) if number == 0 else ("phy0",)

    def take_address(self) -> bool:
        """Give br-phy its address. Return whether that was possible: vswitchd creates br-phy after it has started."""
        name = self._network.name
        try:
            run("ip", "-n", name, "address", "replace", f"{self.address}/24", "dev", BRIDGE)
            run("ip", "-n", name, "link", "set", BRIDGE, "up")
        except Unavailable:
            return False
        return True


def connect(networks: Sequence[HostNetwork]) -> None:
    """Connect the namespaces of all hosts with that of the first one. Raises: Unavailable."""
    first, *others = networks
    for number, network in enumerate(others, start=1):
        if f"phy{number}" not in first.devices() or "phy0" not in network.devices():
            for namespace, device in ((first, f"phy{number}"), (network, "phy0")):
                if device in namespace.devices():
                    run("ip", "-n", namespace.name, "link", "delete", device)
            veth = f"link add phy{number} type veth peer name phy0 netns {network.name}"
            run("ip", "-n", first.name, *veth.split())
        for namespace, device in ((first, f"phy{number}"), (network, "phy0")):
            run("ip", "-n", namespace.name, "link", "set", device, "up")
