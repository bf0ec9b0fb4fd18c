# SPDX-License-Identifier: Apache-2.0
"""Addresses of guest consoles."""

from enum import StrEnum

from kilonova.records import dataclass


class ConsoleProtocol(StrEnum):
    """Protocol of a console. ``SERIAL``: the bytes of the serial port, without any protocol."""

    VNC = "vnc"
    SPICE = "spice"
    SERIAL = "serial"
    MKS = "mks"


@dataclass(frozen=True, slots=True)
class ConsoleEnd:
    """Address and port at which a hypervisor offers the console of one guest. Only console proxies connect there.

    ``tls_port``: port of the same console with TLS, None if there is none. ``internal_access_path``: path that a proxy
    has to request at this address before it forwards data; None for consoles without such a path.
    """

    address: str
    port: int
    tls_port: int | None = None
    internal_access_path: str | None = None
