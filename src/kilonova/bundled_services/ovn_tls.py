# SPDX-License-Identifier: Apache-2.0
"""OVN's databases over TCP with TLS: for the controllers of further hosts, and at an address that an operator names.

::

    DIR/ovn/tls/southbound/   ca, server, client, and a certificate for each further host
    DIR/ovn/tls/northbound/   ca, server, client

Each database has a certificate authority of its own, so a host has no access to the northbound database. A client
without a certificate of the database's authority is refused during the handshake. At the southbound database, clients
have OVN's role ``ovn-controller``: of hosts, a client changes only the records of the one that its certificate names.
Of ports it changes the binding only, but of any port, since OVN does not know beforehand which host a port is on.
"""

import socket
import time
from collections.abc import Callable, Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

from kilonova.bundled_services.certificate_files import Certificate
from kilonova.bundled_services.host_network import run
from kilonova.errors import ConfigurationError
from kilonova.records import dataclass

if TYPE_CHECKING:
    from kilonova.bundled_services.certificate_authority import CertificateAuthority

NORTHBOUND, SOUTHBOUND = "northbound", "southbound"
#: Ports of the databases at the operator's address, as usual for OVN.
PORTS = {NORTHBOUND: 6641, SOUTHBOUND: 6642}
_PROGRAMS = {NORTHBOUND: "ovn-nbctl", SOUTHBOUND: "ovn-sbctl"}
_CONTROLLER_ROLE = ("role=ovn-controller",)
_LISTENS_S = 5.0


@dataclass(frozen=True, slots=True)
class Listener:
    """A TCP address at which a database listens."""

    address: str
    port: int

    def __str__(self) -> str:
        """Return the address and the port as OVN's programs expect them: PORT:ADDRESS."""
        return f"{self.port}:{bracketed(self.address)}"

    @property
    def target(self) -> str:
        """The connection of a client."""
        return f"ssl:{bracketed(self.address)}:{self.port}"


class DatabaseTls:
    """TLS of one database. ``folder``: OVN's folder. ``connection``: the database's Unix socket, as for ovn-nbctl."""

    def __init__(self, folder: Path, name: str, connection: str) -> None:
        self._name = name
        self._connection = connection
        self._files = folder / "tls" / name

    def certify(self, name: str) -> Certificate:
        """Return the certificate of a client. Raises: ConfigurationError."""
        return self._authority().certify(name)

    def listen(self, listeners: Sequence[Listener]) -> None:
        """Let the database listen at these addresses and at no other ones.

        The database server keeps the addresses and opens them again when it starts. Raises: Unavailable;
        ConfigurationError if it cannot listen.
        """
        program = (_PROGRAMS[self._name], f"--db={self._connection}")
        if not listeners:
            run(*program, "del-connection", "--", "del-ssl")
            return
        server = self._authority().certify("server", serves=True)
        files = (server.key, server.certificate, server.authority)
        role = _CONTROLLER_ROLE if self._name == SOUTHBOUND else ()
        targets = [f"pssl:{listener}" for listener in listeners]
        run(*program, "set-ssl", *map(str, files), "--", "set-connection", *role, *targets)
        for listener in listeners:
            self._require(listener)

    def _require(self, listener: Listener, pause: Callable[[float], None] = time.sleep) -> None:
        """Wait until the database listens. Raises: ConfigurationError."""
        deadline = time.monotonic() + _LISTENS_S
        while True:
            try:
                socket.create_connection((listener.address, listener.port), timeout=1).close()
            except OSError as error:
                if time.monotonic() > deadline:
                    raise ConfigurationError(
                        f"OVN's {self._name} database cannot listen on {listener.address}, port {listener.port}: "
                        f"{error.strerror or error}; see ovn/log/{self._name}.log"
                    ) from error
                pause(0.02)
            else:
                return

    def _authority(self) -> "CertificateAuthority":
        from kilonova.bundled_services.certificate_authority import CertificateAuthority  # noqa: PLC0415 - slow to import

        return CertificateAuthority(self._files, f"OVN {self._name}")


def bracketed(address: str) -> str:
    """Return an address for use before a port: an IPv6 address in brackets."""
    return f"[{address}]" if ":" in address else address


def is_reachable_by_ipv4(address: str) -> bool:
    """Return whether other machines may reach an IP address by IPv4."""
    found = ip_address(address)
    return found.version == 4 and not (found.is_loopback or found.is_unspecified)


def read_address(text: str, option: str = "--ovn-address") -> str:
    """Return the address of an option. Raises: ConfigurationError."""
    try:
        return str(ip_address(text))
    except ValueError:
        raise ConfigurationError(f"{option} {text} is not an IP address of this machine") from None
