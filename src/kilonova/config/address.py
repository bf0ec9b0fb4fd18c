# SPDX-License-Identifier: Apache-2.0
"""An address to listen on."""

from typing import NamedTuple


class Address(NamedTuple):
    """``HOST:PORT``; the host of IPv6 stands in brackets in a file, and without them here."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> Address:
    """Read ``HOST:PORT``. Raises: ValueError."""
    host, _, port = text.rpartition(":")
    if not host or not (port.isascii() and port.isdigit()) or not 0 < int(port) < 65536:
        raise ValueError(f"must be HOST:PORT, not {text!r}.")
    return Address(host.strip("[]"), int(port))
