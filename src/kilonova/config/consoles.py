# SPDX-License-Identifier: Apache-2.0
"""[consoleauth], [vnc], [spice], [serial_console], [mks]: where users and proxies find the consoles of guests."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from kilonova.config.option import Option

_ENABLED = "Whether users are given addresses of such consoles."
_LISTEN = "Address at which the hypervisors of this process listen for those who use such consoles."
_REACHED = "Address at which proxies of consoles reach the hypervisors of this process."


@dataclass(frozen=True, slots=True)
class PortRange:
    """TCP ports from ``first`` to ``last``, written as 10000:20000."""

    first: int
    last: int

    @classmethod
    def of(cls, text: str) -> "PortRange":
        """Read a range. Raises: ValueError, which completes the name of the option."""
        first, _, last = (part.strip() for part in str(text).partition(":"))
        if not (first.isdecimal() and last.isdecimal() and 1024 <= int(first) <= int(last) <= 65535):
            raise ValueError(f"must be two ports from 1024 to 65535, such as 10000:20000, not '{text}'.")
        return cls(int(first), int(last))

    def __str__(self) -> str:
        return f"{self.first}:{self.last}"


@dataclass(frozen=True, slots=True)
class ConsoleSettings:
    """Control processes read what users are told, agents where they listen. Defaults are those of nova.conf."""

    GROUP: ClassVar[str] = "vnc"

    token_ttl_s: Annotated[
        int,
        Option("Seconds for which a user may use a console after asking for it.", "token_ttl", "consoleauth", min=0),
    ] = 600
    vnc_enabled: Annotated[bool, Option(_ENABLED, "enabled")] = True
    novncproxy_base_url: Annotated[str, Option("Where browsers find noVNC; a token is added.")] = (
        "http://127.0.0.1:6080/vnc_auto.html"
    )
    vnc_listen: Annotated[str, Option(_LISTEN, "server_listen")] = "127.0.0.1"
    vnc_reached_at: Annotated[str, Option(_REACHED, "server_proxyclient_address")] = "127.0.0.1"
    spice_enabled: Annotated[bool, Option(_ENABLED, "enabled", "spice")] = False
    html5proxy_base_url: Annotated[
        str, Option("Where browsers find the HTML5 client of SPICE; a token is added.", group="spice")
    ] = "http://127.0.0.1:6082/spice_auto.html"
    spice_direct_proxy_base_url: Annotated[
        str, Option("Where native clients find SPICE consoles; a token is added.", group="spice")
    ] = "http://127.0.0.1:13002/nova"
    serial_enabled: Annotated[bool, Option(_ENABLED, "enabled", "serial_console")] = False
    serial_base_url: Annotated[
        str, Option("Where clients find serial consoles; a token is added.", "base_url", "serial_console")
    ] = "ws://127.0.0.1:6083/"
    serial_reached_at: Annotated[
        str, Option(f"{_REACHED} They listen there, too.", "proxyclient_address", "serial_console")
    ] = "127.0.0.1"
    serial_ports: Annotated[
        PortRange,
        Option(
            "TCP ports of the serial ports of real guests, as FIRST:LAST.",
            "port_range",
            "serial_console",
            read=PortRange.of,
        ),
    ] = PortRange(10000, 20000)
    mks_enabled: Annotated[bool, Option(_ENABLED, "enabled", "mks")] = False
    mksproxy_base_url: Annotated[
        str, Option("Where browsers find consoles of VMware's guests; a token is added.", group="mks")
    ] = "http://127.0.0.1:6090/"
