# SPDX-License-Identifier: Apache-2.0
"""[consoleauth], [vnc], [spice], [serial_console], [mks]: addresses at which users and proxies reach consoles."""

from typing import Annotated, ClassVar

from kilonova.config.option import Option
from kilonova.records import dataclass

_ENABLED = "Whether users can get URLs of these consoles."
_LISTEN = "Address at which the hypervisors of this process listen for connections to these consoles."
_REACHED = "Address at which console proxies reach the hypervisors of this process."


@dataclass(frozen=True, slots=True)
class PortRange:
    """TCP ports from ``first`` to ``last``, written as 10000:20000."""

    first: int
    last: int

    @classmethod
    def of(cls, text: str) -> "PortRange":
        """Parse a range. Raises: ValueError."""
        first, _, last = (part.strip() for part in str(text).partition(":"))
        if not (first.isdecimal() and last.isdecimal() and 1024 <= int(first) <= int(last) <= 65535):
            raise ValueError(f"The range must be two ports from 1024 to 65535, such as 10000:20000, not '{text}'.")
        return cls(int(first), int(last))

    def __str__(self) -> str:
        return f"{self.first}:{self.last}"


@dataclass(frozen=True, slots=True)
class ConsoleSettings:
    """Options of consoles. Control processes read the URLs for users; agents read the addresses to listen on.

    Defaults are those of nova.conf.
    """

    GROUP: ClassVar[str] = "vnc"

    token_ttl_s: Annotated[
        int,
        Option("Lifetime of a console token in seconds.", "token_ttl", "consoleauth", min=0),
    ] = 600
    vnc_enabled: Annotated[bool, Option(_ENABLED, "enabled")] = True
    novncproxy_base_url: Annotated[str, Option("URL of noVNC for browsers; a token is appended.")] = (
        "http://127.0.0.1:6080/vnc_auto.html"
    )
    vnc_listen: Annotated[str, Option(_LISTEN, "server_listen")] = "127.0.0.1"
    vnc_reached_at: Annotated[str, Option(_REACHED, "server_proxyclient_address")] = "127.0.0.1"
    spice_enabled: Annotated[bool, Option(_ENABLED, "enabled", "spice")] = False
    html5proxy_base_url: Annotated[
        str, Option("URL of the SPICE HTML5 client for browsers; a token is appended.", group="spice")
    ] = "http://127.0.0.1:6082/spice_auto.html"
    spice_direct_proxy_base_url: Annotated[
        str, Option("URL of SPICE consoles for native clients; a token is appended.", group="spice")
    ] = "http://127.0.0.1:13002/nova"
    serial_enabled: Annotated[bool, Option(_ENABLED, "enabled", "serial_console")] = False
    serial_base_url: Annotated[
        str, Option("URL of serial consoles; a token is appended.", "base_url", "serial_console")
    ] = "ws://127.0.0.1:6083/"
    serial_reached_at: Annotated[
        str,
        Option(
            f"{_REACHED} The hypervisors listen there, too, unless server_listen is set.",
            "proxyclient_address",
            "serial_console",
        ),
    ] = "127.0.0.1"
    serial_listen: Annotated[
        str,
        Option(
            f"{_LISTEN} Unset: [serial_console] proxyclient_address. Kilonova's own option.",
            "server_listen",
            "serial_console",
        ),
    ] = ""
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
        str, Option("URL of MKS consoles (VMware) for browsers; a token is appended.", group="mks")
    ] = "http://127.0.0.1:6090/"

    @property
    def serial_listens_at(self) -> str:
        """Address at which the hypervisors of this process listen for connections to serial consoles."""
        return self.serial_listen or self.serial_reached_at
