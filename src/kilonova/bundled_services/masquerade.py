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

from kilonova.bundled_services.host_network import run
from kilonova.bundled_services.private_file import write_private
from kilonova.errors import Unavailable

_DEVICES = Path("/proc/sys/net/ipv4/conf")


class Masquerade:
    """Source NAT for the external network.

    ``external``: device of this machine in the external network. ``addresses``: prefix of this network. ``note``: file
    with the uplinks on which this class has enabled forwarding; the file outlives a killed process. ``devices``: folder
    with the kernel's settings of each device. ``execute``: runs a program, as :func:`run`.
    """

    def __init__(
        self,
        external: str,
        addresses: str,
        note: Path,
        *,
        devices: Path = _DEVICES,
        execute: Callable[..., str] = run,
    ) -> None:
        self._external = external
        self._addresses = addresses
        self._table = f"kilonova-{external}"
        self._note = note
        self._devices = devices
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
            closed = sorted(device for device in uplinks if not self._forwards(device))
            self._run("nft", self._rules(closed))
            write_private(self._note, "\n".join(closed))
            for device in (*closed, self._external):
                self._switch(device, forwards=True)
        except (OSError, Unavailable) as error:
            return str(error)
        return None

    def stop(self) -> None:
        """Undo the start, also that of a killed process."""
        with contextlib.suppress(OSError, Unavailable):  # without nft there are no rules
            self._run("nft", f"table ip {self._table} {{}}; delete table ip {self._table}")
        for device in self._noted():
            if (self._devices / device).exists():
                self._switch(device, forwards=False)
        self._note.unlink(missing_ok=True)

    def _uplinks(self) -> list[str]:
        routes = json.loads(self._run("ip", "-j", "-4", "route", "show", "default") or "[]")
        return sorted({route["dev"] for route in routes if "dev" in route})

    def _rules(self, closed: list[str]) -> str:
        """Return the nft command that adds the rules. ``closed``: uplinks of which only replies are forwarded."""
        drops = "".join(f'iifname "{device}" ct state != {{ established, related }} drop; ' for device in closed)
        return (
            f"table ip {self._table} {{ "
            "chain out { type nat hook postrouting priority srcnat; "
            f"ip saddr {self._addresses} ip daddr != {self._addresses} masquerade; }}; "
            f"chain through {{ type filter hook forward priority filter; {drops}"
            f'iifname "{self._external}" tcp flags syn tcp option maxseg size set rt mtu; }}; }}'
        )

    def _forwards(self, device: str) -> bool:
        return (self._devices / device / "forwarding").read_text(encoding="ascii").strip() == "1"

    def _switch(self, device: str, *, forwards: bool) -> None:
        (self._devices / device / "forwarding").write_text(f"{int(forwards)}\n", encoding="ascii")

    def _noted(self) -> list[str]:
        return self._note.read_text(encoding="utf-8").split() if self._note.exists() else []
