# SPDX-License-Identifier: Apache-2.0
"""Where the console of a guest is reached."""

from dataclasses import dataclass
from enum import StrEnum


class ConsoleProtocol(StrEnum):
    """What is spoken at the end of a console. ``SERIAL``: plain bytes."""

    VNC = "vnc"
    SPICE = "spice"
    SERIAL = "serial"
    MKS = "mks"


@dataclass(frozen=True, slots=True)
class ConsoleEnd:
    """An address of the hypervisor at which one guest's console is reached, by a proxy of consoles and nobody else.

    ``tls_port``: where the same is to be had with TLS. ``internal_access_path``: what a proxy has to ask for first.
    """

    address: str
    port: int
    tls_port: int | None = None
    internal_access_path: str | None = None
