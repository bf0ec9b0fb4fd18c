# SPDX-License-Identifier: Apache-2.0
"""The connection of a client to a database of OVN or Open vSwitch."""

import socket
import ssl

from kilonova.bundled_services.certificate_files import Certificate
from kilonova.records import dataclass

_UNIX, _TLS = "unix:", "ssl:"


@dataclass(frozen=True, slots=True)
class OvnConnection:
    """A connection as OVN's programs name it: ``unix:PATH``, or ``ssl:ADDRESS:PORT`` with a certificate."""

    target: str
    files: Certificate | None = None

    @property
    def options(self) -> tuple[str, ...]:
        """The options of OVN's programs that name the certificate."""
        if self.files is None:
            return ()
        named = {"private-key": self.files.key, "certificate": self.files.certificate, "ca-cert": self.files.authority}
        return tuple(f"--{name}={path}" for name, path in named.items())

    def open(self, timeout_s: float) -> socket.socket:
        """Return a connected socket. ``timeout_s``: of this socket. Raises: OSError, ValueError."""
        if self.target.startswith(_UNIX):
            plain = socket.socket(socket.AF_UNIX)
            try:
                plain.settimeout(timeout_s)
                plain.connect(self.target.removeprefix(_UNIX))
            except OSError:
                plain.close()
                raise
            return plain
        if self.files is None or not self.target.startswith(_TLS):
            raise ValueError(f"{self.target} is neither a Unix socket nor a TLS connection with a certificate")
        address, _, port = self.target.removeprefix(_TLS).rpartition(":")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False  # only one certificate of the authority is for a server
        context.load_verify_locations(self.files.authority)
        context.load_cert_chain(self.files.certificate, self.files.key)
        plain = socket.create_connection((address.strip("[]"), int(port)), timeout_s)
        try:
            return context.wrap_socket(plain)
        except OSError:
            plain.close()
            raise
