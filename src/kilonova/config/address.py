# SPDX-License-Identifier: Apache-2.0
"""Addresses (host and port) that a server listens on."""

from typing import NamedTuple


class Address(NamedTuple):
    """A host and a port, written ``HOST:PORT``. An IPv6 address has brackets in the text, but not in ``host``."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> Address:
    """Parse ``HOST:PORT``. Raises: ValueError."""
    host, _, port = text.rpartition(":")
    if not host or not (port.isascii() and port.isdigit()) or not 0 < int(port) < 65536:
        raise ValueError(f"The address must be HOST:PORT, not {text!r}.")
    return Address(host.strip("[]"), int(port))
