# SPDX-License-Identifier: Apache-2.0
"""Addresses of services: parsing, URLs for clients, and reservation of ports."""

import errno
import ipaddress
import socket
import time
from collections.abc import Mapping
from contextlib import ExitStack

from kilonova.errors import ConfigurationError, Unavailable
from kilonova.records import dataclass

_WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 # no socket is bound to them here


@dataclass(frozen=True, slots=True)
class Address:
    host: str
    port: int

    @property
    def text(self) -> str:
        return f"{_bracketed(self.host)}:{self.port}"

    @property
    def local_url(self) -> str:
        """URL for clients on this machine."""
        return f"http://{_bracketed(_WILDCARDS.get(self.host, self.host))}:{self.port}"

    @property
    def public_url(self) -> str:
        """URL for clients on other machines: a wildcard address is replaced by this machine's own address."""
        host = _own_address(self.host) if self.host in _WILDCARDS else self.host
        return f"http://{_bracketed(host)}:{self.port}"


def parse(text: str, option: str) -> Address:
    """Parse ``HOST:PORT`` or ``[IPV6]:PORT``. Raises: ConfigurationError naming the option."""
    host, _, port = text.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if (
        not bare
        or not port.isascii()
        or not port.isdigit()
        or not 0 < int(port) < 65536
        or (":" in bare and bare == host)
    ):
        raise ConfigurationError(f"{option} must be HOST:PORT with a port from 1 to 65535, not {text!r}")
    return Address(bare, int(port))


def is_loopback(host: str) -> bool:
    """Return whether all addresses of ``host`` are loopback addresses."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return False
    return all(ipaddress.ip_address(str(address[0]).partition("%")[0]).is_loopback for *_, address in found)


def hold(addresses: Mapping[str, Address], timeout_s: float = 1.0) -> ExitStack:
    """Reserve the addresses of services until the result is closed: bind each address without listening.

    A service can still listen on its address. The kernel does not use a bound port as the source port of an outgoing
    connection. Without the reservation, an outgoing connection could take the port while the service starts; a
    connection to this very port would even connect to itself.

    Keys of ``addresses``: the service, and the option that sets its address. ``timeout_s``: seconds to wait until the
    ports of a supervisor that has just been killed become free. Raises: ConfigurationError if two services have the
    same port; Unavailable naming a port in use.
    """
    seen: dict[int, str] = {}
    for owner, address in addresses.items():
        if address.port in seen:
            raise ConfigurationError(f"port {address.port} is assigned to both {seen[address.port]} and {owner}")
        seen[address.port] = owner
    deadline = time.monotonic() + timeout_s
    with ExitStack() as held:
        for owner, address in addresses.items():
            while (problem := _bind(address, held)) is not None:
                if problem.errno != errno.EADDRINUSE:
                    raise ConfigurationError(f"cannot listen on {address.text} for {owner}: {problem.strerror}")
                if time.monotonic() > deadline:
                    raise Unavailable(f"port {address.port} on {address.host} is in use, and {owner} needs it")
                time.sleep(0.05)
        return held.pop_all()


def _bind(address: Address, held: ExitStack) -> OSError | None:
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        holder = held.enter_context(socket.socket(family, kind, protocol))
        # lets the service, which sets SO_REUSEADDR, too, bind the same port
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(place)
    except OSError as error:
        return error
    return None


def _own_address(wildcard: str) -> str:
    """Return the source address that packets to other networks would have. No packet is sent."""
    family, outside = (socket.AF_INET6, "2001:db8::1") if ":" in wildcard else (socket.AF_INET, "192.0.2.1")
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((outside, 9))
            return str(probe.getsockname()[0])
    except OSError:
        return _WILDCARDS[wildcard]


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
