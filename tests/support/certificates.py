# SPDX-License-Identifier: Apache-2.0
"""Certificate authority of a test and the certificates that it signs."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclass(frozen=True)
class Certificate:
    """Paths of a certificate and its private key."""

    cert_file: Path
    key_file: Path


class Authority:
    """Certificate authority with its files in ``folder``. ``ca_file``: the CA bundle for peers that trust it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority")])
        certificate = self._sign(self._name, self._key, x509.BasicConstraints(ca=True, path_length=None))
        self.ca_file = folder / "ca.pem"
        self.ca_file.write_bytes(certificate)

    def certify(self, common_name: str, *, host: str | None = None) -> Certificate:
        """Issue a certificate for a user, or for the server named ``host``."""
        key = ec.generate_private_key(ec.SECP256R1())
        names: list[x509.ExtensionType] = [x509.BasicConstraints(ca=False, path_length=None)]
        if host is not None:
            names.append(x509.SubjectAlternativeName([x509.DNSName(host)]))
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
        made = Certificate(self._folder / f"{common_name}.pem", self._folder / f"{common_name}.key")
        made.cert_file.write_bytes(self._sign(name, key, *names))
        made.key_file.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return made

    def _sign(self, name: x509.Name, key: ec.EllipticCurvePrivateKey, *extensions: x509.ExtensionType) -> bytes:
        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
        )
        for extension in extensions:
            builder = builder.add_extension(extension, critical=isinstance(extension, x509.BasicConstraints))
        return builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
