# SPDX-License-Identifier: Apache-2.0
"""The way of a console proxy on another machine to the consoles of this machine's guests.

::

    proxy ── ADDRESS, TCP ports of consoles ── this machine ── veth pair ── namespace of the guests

The consoles listen in the namespace, which accepts packets from this machine only. This machine forwards connections of
the proxy's address, and of no other one.
"""

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path

from kilonova.bundled_services.forwarding import DEVICES, Forwarding
from kilonova.bundled_services.host_network import HostNetwork, run
from kilonova.errors import Unavailable
from kilonova.records import dataclass


@dataclass(frozen=True, slots=True)
class ConsoleAddresses:
    """Where a proxy reaches consoles. ``proxy``, ``address``: IPv4 addresses of the proxy and of this machine.

    ``ports``: first and last port of each range.
    """

    proxy: str
    address: str
    ports: Sequence[tuple[int, int]]


class MachineConsoles:
    """Consoles of the host with the namespace ``network``.

    ``note``: file for the forwarding settings. ``devices``, ``execute``: as in :class:`MachineTunnel`, which lets
    packets of other machines reach the consoles' veth pair.
    """

    def __init__(
        self,
        network: HostNetwork,
        where: ConsoleAddresses,
        note: Path,
        *,
        devices: Path = DEVICES,
        execute: Callable[..., str] = run,
    ) -> None:
        self._network = network
        self._where = where
        self._table = f"kilonova-{network.consoles}"
        self._forwarding = Forwarding(note, devices)
        self._run = execute

    def start(self) -> None:
        """Let the proxy reach the consoles. The namespace exists. Raises: Unavailable, OSError."""
        self.stop()
        self._run("nft", self._rules())
        self._forwarding.open((), self._network.consoles)

    def stop(self) -> None:
        """Undo the start, also that of a killed process."""
        with contextlib.suppress(OSError, Unavailable):
            self._run("nft", f"table ip {self._table} {{}}; delete table ip {self._table}")
        self._forwarding.undo()

    def _rules(self) -> str:
        where, veth = self._where, self._network.consoles
        # one rule for each range, because nft refuses a set of ranges that overlap
        ways = "".join(
            f"ip saddr {where.proxy} ip daddr {where.address} tcp dport {first}-{last} "
            f"dnat to {self._network.console_address}; "
            for first, last in where.ports
        )
        return (
            f"table ip {self._table} {{ "
            f"chain in {{ type nat hook prerouting priority dstnat; {ways}}}; "
            "chain out { type nat hook postrouting priority srcnat; "
            f'oifname "{veth}" ip saddr {where.proxy} snat to {self._network.machine_address}; }}; '
            "chain through { type filter hook forward priority filter; "
            f'oifname "{veth}" ct status dnat accept; oifname "{veth}" drop; '
            f'iifname "{veth}" ct state != {{ established, related }} drop; }}; }}'
        )
