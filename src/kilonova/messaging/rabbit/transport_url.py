# SPDX-License-Identifier: Apache-2.0
"""Address of the broker and connection options: the ``transport_url`` of nova.conf."""

import itertools
import random
import ssl
from collections.abc import Iterator
from dataclasses import field
from pathlib import Path
from urllib.parse import unquote

from kilonova.records import dataclass

_PORT, _TLS_PORT = 5672, 5671


@dataclass(frozen=True, slots=True)
class BrokerAddress:
    """One server of the broker, and the user to log in as. ``password``: None to authenticate by a certificate."""

    host: str
    port: int | None
    user: str
    password: str | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class TransportUrl:
    """A parsed ``rabbit://USER:PASSWORD@HOST:PORT[,USER:PASSWORD@HOST:PORT]/VIRTUAL_HOST``, percent-decoded."""

    brokers: tuple[BrokerAddress, ...]
    virtual_host: str


@dataclass(frozen=True, slots=True)
class Tls:
    """TLS options. The broker's certificate and host name are always verified, with ``ca_file`` or the system's CAs."""

    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    minimum_version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2

    def check(self) -> None:
        """Check that the files exist and can be loaded. Raises: OSError."""
        context = ssl.create_default_context(cafile=self.ca_file)
        if self.cert_file is not None:
            context.load_cert_chain(self.cert_file, self.key_file)


@dataclass(frozen=True, slots=True)
class Transport:
    """A broker and its connection options. Units: seconds.

    ``login_method``: PLAIN, AMQPLAIN or EXTERNAL; a user without a password uses EXTERNAL.
    ``heartbeat_s``: both ends consider a connection broken if it has no traffic for twice this time. Configure less
    than half of the lease of agents.
    ``retry_interval_s``: pause after one failed connection attempt to every server. The pause grows by
    ``retry_backoff_s`` each time, up to ``max_retry_interval_s``. ``is_shuffled``: whether each process tries the
    servers in random order.
    """

    url: TransportUrl
    tls: Tls | None = None
    login_method: str = "AMQPLAIN"
    heartbeat_s: int = 10
    retry_interval_s: float = 1.0
    retry_backoff_s: float = 2.0
    max_retry_interval_s: float = 30.0
    is_shuffled: bool = False

    def servers(self) -> Iterator[BrokerAddress]:
        """Yield the servers of the broker in the order of connection attempts, in an endless cycle."""
        brokers = list(self.url.brokers)
        if self.is_shuffled:
            random.shuffle(brokers)
        return itertools.cycle(brokers)

    def pause_s(self, rounds: int) -> float:
        """Return the pause, in seconds, after all servers have failed ``rounds`` times in a row."""
        return min(self.retry_interval_s + (rounds - 1) * self.retry_backoff_s, self.max_retry_interval_s)

    def port_of(self, address: BrokerAddress) -> int:
        if address.port is not None:
            return address.port
        return _PORT if self.tls is None else _TLS_PORT


def parse_transport_url(text: str) -> TransportUrl:
    """Parse a transport URL. Raises: ValueError, whose message never contains a password."""
    scheme, _, rest = text.partition("://")
    if scheme != "rabbit":
        raise ValueError("The URL must begin with rabbit://; other brokers are not supported")
    servers, _, virtual_host = rest.partition("/")
    if "?" in virtual_host:
        raise ValueError(
            "The URL must end with the virtual host; set options in [oslo_messaging_rabbit] instead of after '?'"
        )
    brokers = tuple(_broker(part) for part in servers.split(",") if part)
    if not brokers:
        raise ValueError("The URL names no host")
    return TransportUrl(brokers, unquote(virtual_host) or "/")


def _broker(part: str) -> BrokerAddress:
    account, _, place = part.rpartition("@")
    user, colon, password = account.partition(":")
    if not user:
        raise ValueError(f"The URL has no user for {place}; each host needs its own, as in rabbit://USER:PASSWORD@HOST")
    host, port = _host_and_port(place)
    return BrokerAddress(host, port, unquote(user), unquote(password) if colon else None)


def _host_and_port(place: str) -> tuple[str, int | None]:
    if place.startswith("["):  # IPv6
        host, closed, rest = place[1:].partition("]")
        if not closed or (rest and not rest.startswith(":")):
            raise ValueError(f"The URL contains {place!r}, which is not an address with a port")
        text = rest[1:]
    else:
        host, _, text = place.partition(":")
    if not host:
        raise ValueError("The URL names no host")
    if not text:
        return host, None
    if not text.isascii() or not text.isdigit() or not 0 < int(text) < 65_536:
        raise ValueError(f"The URL contains {place!r}, which has an invalid port")
    return host, int(text)
