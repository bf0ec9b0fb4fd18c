# SPDX-License-Identifier: Apache-2.0
"""The way of guests to networks beyond this machine: packets of guests leave with the machine's address.

::

    guest ── router, floating address ── external device ── this machine ── uplink ── other networks, the internet

This machine forwards packets between two devices only: its device in the external network, and the uplink, which has
the default route. If forwarding was disabled on the uplink before, only replies to guests are forwarded from there, so
this machine is no router for its neighbours.
"""

import contextlib
import json
from collections.abc import Callable
from pathlib import Path

from kilonova.bundled_services.forwarding import DEVICES, Forwarding
from kilonova.bundled_services.host_network import run
from kilonova.errors import Unavailable


class Masquerade:
    """Source NAT for the external network.

    ``external``: device of this machine in the external network. ``addresses``: prefix of this network. ``note``: file
    with the uplinks on which this class has enabled forwarding. ``tunnels``: device to which other rules forward
    packets of the uplinks. ``devices``: folder with the kernel's settings of each device. ``execute``: runs a program,
    as :func:`run`.
    """

    def __init__(
        self,
        external: str,
        addresses: str,
        note: Path,
        *,
        tunnels: str = "",
        devices: Path = DEVICES,
        execute: Callable[..., str] = run,
    ) -> None:
        self._external = external
        self._addresses = addresses
        self._table = f"kilonova-{external}"
        self._elsewhere = f'oifname != "{tunnels}" ' if tunnels else ""
        self._forwarding = Forwarding(note, devices)
        self._run = execute

    def start(self) -> str | None:
        """Let guests reach further networks; return the reason if that is impossible.

        It is possible only for the uplinks that this machine has now.
        """
        self.stop()
        try:
            uplinks = self._uplinks()
            if not uplinks:
                return "this machine has no default route"
            closed = self._forwarding.closed(uplinks)
            self._run("nft", self._rules(closed))
            self._forwarding.open(closed, self._external)
        except (OSError, Unavailable) as error:
            return str(error)
        return None

    def stop(self) -> None:
        """Undo the start, also that of a killed process."""
        with contextlib.suppress(OSError, Unavailable):  # without nft there are no rules
            self._run("nft", f"table ip {self._table} {{}}; delete table ip {self._table}")
        self._forwarding.undo()

    def _uplinks(self) -> list[str]:
        routes = json.loads(self._run("ip", "-j", "-4", "route", "show", "default") or "[]")
        return sorted({route["dev"] for route in routes if "dev" in route})

    def _rules(self, closed: list[str]) -> str:
        """Return the nft command that adds the rules. ``closed``: uplinks of which only replies are forwarded."""
        drops = "".join(
            f'iifname "{device}" {self._elsewhere}ct state != {{ established, related }} drop; ' for device in closed
        )
        return (
            f"table ip {self._table} {{ "
            "chain out { type nat hook postrouting priority srcnat; "
            f"ip saddr {self._addresses} ip daddr != {self._addresses} masquerade; }}; "
            f"chain through {{ type filter hook forward priority filter; {drops}"
            f'iifname "{self._external}" tcp flags syn tcp option maxseg size set rt mtu; }}; }}'
        )
