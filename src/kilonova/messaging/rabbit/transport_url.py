# SPDX-License-Identifier: Apache-2.0
"""Where the broker is and how it is talked to: ``transport_url`` as operators know it from nova.conf."""

import ssl
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

_PORT, _TLS_PORT = 5672, 5671


@dataclass(frozen=True, slots=True)
class BrokerAddress:
    """One server of the broker, and the account there. ``password``: None to show a certificate instead."""

    host: str
    port: int | None
    user: str
    password: str | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class TransportUrl:
    """``rabbit://USER:PASSWORD@HOST:PORT[,USER:PASSWORD@HOST:PORT]/VIRTUAL_HOST``, parts percent-encoded."""

    brokers: tuple[BrokerAddress, ...]
    virtual_host: str


@dataclass(frozen=True, slots=True)
class Tls:
    """The broker's certificate is always checked, with its name: by ``ca_file``, else by the system's authorities."""

    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    minimum_version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2


@dataclass(frozen=True, slots=True)
class Transport:
    """A broker and how to talk to it. Units: seconds.

    ``heartbeat_s``: after twice that a silent connection counts as broken, at both ends. Keep it below half a lease.
    ``retry_interval_s``: the pause after no server could be reached, growing by ``retry_backoff_s`` up to
    ``max_retry_interval_s``.
    """

    url: TransportUrl
    tls: Tls | None = None
    heartbeat_s: int = 10
    retry_interval_s: float = 1.0
    retry_backoff_s: float = 2.0
    max_retry_interval_s: float = 30.0

    def pause_s(self, rounds: int) -> float:
        """Return how long to wait after no server could be reached ``rounds`` times in a row."""
        return min(self.retry_interval_s + (rounds - 1) * self.retry_backoff_s, self.max_retry_interval_s)

    def port_of(self, address: BrokerAddress) -> int:
        if address.port is not None:
            return address.port
        return _PORT if self.tls is None else _TLS_PORT


def parse_transport_url(text: str) -> TransportUrl:
    """Read a URL. Raises: ValueError, whose message never has a password in it."""
    url = urlsplit(text)
    if url.scheme != "rabbit":
        raise ValueError("must begin with rabbit://, the only kind of broker there is")
    if url.query or url.fragment:
        raise ValueError("must end with the virtual host; what it has after '?' is set in [oslo_messaging_rabbit]")
    brokers = tuple(_broker(part) for part in url.netloc.split(",") if part)
    if not brokers:
        raise ValueError("names no host")
    return TransportUrl(brokers, unquote(url.path.removeprefix("/")) or "/")


def _broker(part: str) -> BrokerAddress:
    account, _, place = part.rpartition("@")
    user, colon, password = account.partition(":")
    if not user:
        raise ValueError(f"has no user for {place}; each host needs its own, as in rabbit://USER:PASSWORD@HOST")
    host, port = _host_and_port(place)
    return BrokerAddress(host, port, unquote(user), unquote(password) if colon else None)


def _host_and_port(place: str) -> tuple[str, int | None]:
    if place.startswith("["):  # IPv6
        host, closed, rest = place[1:].partition("]")
        if not closed or (rest and not rest.startswith(":")):
            raise ValueError(f"names {place!r}, which is no address and port")
        text = rest[1:]
    else:
        host, _, text = place.partition(":")
    if not host:
        raise ValueError("names no host")
    if not text:
        return host, None
    if not text.isascii() or not text.isdigit() or not 0 < int(text) < 65_536:
        raise ValueError(f"names {place!r}, whose port is none")
    return host, int(text)
