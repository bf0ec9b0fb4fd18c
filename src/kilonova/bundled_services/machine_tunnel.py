# SPDX-License-Identifier: Apache-2.0
"""The end, on this machine, of the tunnels between its host and hosts of other machines.

::

    br-phy ── phy0 ── veth pair ── this machine ── ADDRESS ── UDP port 6081 of other machines

Open vSwitch runs in the namespace of the host, and other machines know this machine's address only. So this machine
forwards the packets of tunnels, and nothing else, to the namespace and back, and translates their addresses.
"""

import contextlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path

from kilonova.bundled_services.forwarding import DEVICES, Forwarding
from kilonova.bundled_services.host_network import HostNetwork, run
from kilonova.bundled_services.tunnel_end import BRIDGE
from kilonova.errors import ConfigurationError, Unavailable

#: Geneve's UDP port (RFC 8926).
PORT = 6081


class MachineTunnel:
    """Tunnels of the host with the namespace ``network``, which end at the IPv4 address ``address`` of this machine.

    ``note``: file with the devices on which this class has enabled forwarding. ``besides``: devices to which other
    rules forward packets. ``devices``, ``execute``: as in :class:`Masquerade`.
    """

    def __init__(
        self,
        network: HostNetwork,
        address: str,
        note: Path,
        *,
        besides: Sequence[str] = (),
        devices: Path = DEVICES,
        execute: Callable[..., str] = run,
    ) -> None:
        self.address = address
        self.devices = ("phy0",)
        self._network = network
        self._table = f"kilonova-{network.tunnels}"
        self._besides = besides
        self._forwarding = Forwarding(note, devices)
        self._run = execute

    def start(self) -> None:
        """Connect the existing namespace with other machines. Raises: ConfigurationError, Unavailable, OSError."""
        self.stop()
        uplinks = self._uplinks()
        if not uplinks:
            raise ConfigurationError(f"no device of this machine has the address {self.address}")
        if self._run("ss", "-Hlnu", f"sport = :{PORT}").strip():
            raise ConfigurationError(
                f"another program of this machine uses UDP port {PORT}, which the tunnels to other machines need"
            )
        closed = self._forwarding.closed(uplinks)
        self._network.connect_tunnels()
        try:
            self._run("nft", self._rules(closed))
        except FileNotFoundError:
            raise ConfigurationError("tunnels to other machines need nft, of the Debian package nftables") from None
        self._forwarding.open(closed, self._network.tunnels)

    def stop(self) -> None:
        """Undo the start, also that of a killed process. The veth pair disappears with the namespace."""
        with contextlib.suppress(OSError, Unavailable):  # without nft there are no rules
            self._run("nft", f"table ip {self._table} {{}}; delete table ip {self._table}")
        self._forwarding.undo()

    def take_address(self) -> bool:
        """Give br-phy its address. Return whether that was possible: vswitchd creates br-phy after it has started."""
        namespace, here = self._network.name, self._network.tunnel_addresses
        try:
            run("ip", "-n", namespace, "address", "replace", f"{here.inside}/30", "dev", BRIDGE)
            run("ip", "-n", namespace, "link", "set", BRIDGE, "up")
            run("ip", "-n", namespace, "route", "replace", "default", "via", here.machine, "dev", BRIDGE)
        except Unavailable:
            return False
        return True

    def _uplinks(self) -> list[str]:
        links = json.loads(self._run("ip", "-j", "-4", "address", "show", "to", f"{self.address}/32") or "[]")
        return sorted({link["ifname"] for link in links if "ifname" in link})

    def _rules(self, closed: list[str]) -> str:
        """Return the nft command that adds the rules. ``closed``: devices of which nothing else is forwarded."""
        inside, veth = self._network.tunnel_addresses.inside, self._network.tunnels
        others = "".join(
            f'{direction} "{veth}" {test} drop; '
            for direction in ("iifname", "oifname")
            for test in ("meta l4proto != udp", f"udp dport != {PORT}")
        )
        reached = ", ".join(f'"{device}"' for device in (veth, *self._besides))
        drops = "".join(
            f'iifname "{device}" oifname != {{ {reached} }} ct state != {{ established, related }} drop; '
            for device in closed
        )
        return (
            f"table ip {self._table} {{ "
            "chain in { type nat hook prerouting priority dstnat; "
            f"ip daddr {self.address} udp dport {PORT} dnat to {inside}; }}; "
            "chain out { type nat hook postrouting priority srcnat; "
            f"ip saddr {inside} udp dport {PORT} snat to {self.address}; }}; "
            f"chain through {{ type filter hook forward priority filter; {others}{drops}}}; }}"
        )
