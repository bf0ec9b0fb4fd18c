# SPDX-License-Identifier: Apache-2.0
"""A certificate authority of the cloud's own, with its certificates as files in one folder.

Certificates are made at the first start and kept. One that ends soon, or that another authority has signed, is made
again at a start. Private keys are readable by their owner only.
"""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kilonova.bundled_services.certificate_files import CA, Certificate
from kilonova.bundled_services.private_file import write_private
from kilonova.errors import ConfigurationError

_VALID_FOR = timedelta(days=3650)
#: Time before its end at which a certificate is made again.
RENEWED_BEFORE = timedelta(days=365)
#: Time by which the clocks of peers may differ.
_CLOCK_SKEW = timedelta(days=1)
#: Longest common name of a certificate (RFC 5280).
_LONGEST_NAME = 64


class CertificateAuthority:
    """The authority with the files ``ca.pem`` and ``ca.key`` in ``folder``, which are made if they are missing."""

    def __init__(self, folder: Path, name: str, *, now: datetime | None = None) -> None:
        self._folder = folder
        self._now = now or datetime.now(UTC)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        own = Certificate(folder, CA)
        found = _read(own)
        if found is None or self._ends_soon(found[0]):
            found = self._make(own, x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]), None)
        self._certificate, self._key = found

    def certify(self, name: str, *, serves: bool = False) -> Certificate:
        """Return the certificate of a client; if ``serves``, of a server. A client cannot pose as a server.

        Raises: ConfigurationError if a certificate cannot have this name.
        """
        if not 0 < len(name) <= _LONGEST_NAME or "/" in name or name in {CA, ".", ".."}:
            raise ConfigurationError(f"a certificate cannot have the name {name}: at most {_LONGEST_NAME} characters")
        peer = Certificate(self._folder, name)
        found = _read(peer)
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH if serves else ExtendedKeyUsageOID.CLIENT_AUTH])
        if found is None or self._ends_soon(found[0]) or not self._has_signed(found[0], usage):
            subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
            self._make(peer, subject, (self._certificate.subject, self._key, usage))
        return peer

    def _ends_soon(self, certificate: x509.Certificate) -> bool:
        return certificate.not_valid_after_utc < self._now + RENEWED_BEFORE

    def _has_signed(self, certificate: x509.Certificate, usage: x509.ExtendedKeyUsage) -> bool:
        try:
            certificate.verify_directly_issued_by(self._certificate)
            return certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value == usage
        except (InvalidSignature, ValueError, TypeError, x509.ExtensionNotFound):
            return False

    def _make(
        self,
        peer: Certificate,
        subject: x509.Name,
        issuer: tuple[x509.Name, ec.EllipticCurvePrivateKey, x509.ExtendedKeyUsage] | None,
    ) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
        """Make a certificate and write its files. ``issuer``: None for the authority's own."""
        key = ec.generate_private_key(ec.SECP256R1())
        signer, signing_key, usage = issuer or (subject, key, None)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(signer)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(self._now - _CLOCK_SKEW)
            .not_valid_after(self._now + _VALID_FOR)
            .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        )
        if usage is not None:
            builder = builder.add_extension(usage, critical=False)
        certificate = builder.sign(signing_key, hashes.SHA256())
        encoding = serialization.Encoding.PEM
        private = key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        write_private(peer.key, private.decode())
        write_private(peer.certificate, certificate.public_bytes(encoding).decode())
        return certificate, key


def end_of(certificate: Certificate) -> datetime:
    """Return the time at which a certificate ends. Raises: ConfigurationError if its files are damaged."""
    found = _read(certificate)
    if found is None:
        raise ConfigurationError(f"{certificate.certificate} or {certificate.key} is damaged")
    return found[0].not_valid_after_utc


def _read(peer: Certificate) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey] | None:
    """Return the certificate and the key in the files; None if they are missing, damaged, or do not match."""
    try:
        certificate = x509.load_pem_x509_certificate(peer.certificate.read_bytes())
        key = serialization.load_pem_private_key(peer.key.read_bytes(), None)
    except (FileNotFoundError, ValueError, TypeError):
        return None
    is_own = isinstance(key, ec.EllipticCurvePrivateKey) and key.public_key() == certificate.public_key()
    return (certificate, key) if is_own and isinstance(key, ec.EllipticCurvePrivateKey) else None
