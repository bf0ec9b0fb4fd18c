# SPDX-License-Identifier: Apache-2.0
"""Addresses of guest consoles."""

from dataclasses import dataclass
from enum import StrEnum


class ConsoleProtocol(StrEnum):
    """Protocol of a console. ``SERIAL``: plain bytes."""

    VNC = "vnc"
    SPICE = "spice"
    SERIAL = "serial"
    MKS = "mks"


@dataclass(frozen=True, slots=True)
class ConsoleEnd:
    """Address on the hypervisor of one guest's console; only the console proxy connects to it.

    ``tls_port``: the port of the same console with TLS. ``internal_access_path``: path that the proxy requests first.
    """

    address: str
    port: int
    tls_port: int | None = None
    internal_access_path: str | None = None
