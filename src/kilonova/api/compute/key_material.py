# SPDX-License-Identifier: Apache-2.0
"""Generation of key pairs, and parsers of public keys. Private keys are sent to the user and never stored."""

import base64
import binascii
import hashlib
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier

from kilonova.errors import InvalidRequest
from kilonova.records import dataclass

_BITS = 2048
_VALID_FOR = timedelta(days=3650)
_USER_PRINCIPAL_NAME = ObjectIdentifier("1.3.6.1.4.1.311.20.2.3")


@dataclass(frozen=True, slots=True)
class KeyMaterial:
    """A public key with its fingerprint. ``private``: the private key, or None for an imported key pair."""

    public: str
    fingerprint: str
    private: str | None = None


def read_ssh(public: str) -> KeyMaterial:
    """Parse an OpenSSH public key; its fingerprint is the MD5 of the key. Raises: InvalidRequest."""
    try:
        serialization.load_ssh_public_key(public.encode("ascii"))
        blob = base64.b64decode(public.split()[1])
    except (ValueError, IndexError, UnsupportedAlgorithm):
        raise InvalidRequest(
            "Keypair data is invalid: public_key is not an OpenSSH public key.", field="public_key"
        ) from None
    return KeyMaterial(public, _colons(hashlib.md5(blob, usedforsecurity=False).digest()))


def read_x509(public: str) -> KeyMaterial:
    """Parse a PEM certificate; its fingerprint is the SHA-1 of the certificate. Raises: InvalidRequest."""
    try:
        certificate = x509.load_pem_x509_certificate(public.encode("ascii"))
    except (ValueError, UnsupportedAlgorithm):
        raise InvalidRequest(
            "Keypair data is invalid: public_key is not a certificate in PEM form.", field="public_key"
        ) from None
    return KeyMaterial(public, _colons(certificate.fingerprint(hashes.SHA1())))  # noqa: S303 - an identifier, not a proof


def make_ssh() -> KeyMaterial:
    """Return a new RSA key pair. The private key is in PEM form, which every SSH client can read."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=_BITS)
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    read = read_ssh(f"{public.decode()} Generated-by-Kilonova")
    return KeyMaterial(read.public, read.fingerprint, private.decode())


def make_x509(user_id: str) -> KeyMaterial:
    """Return a new client certificate for ``user_id``. ``private``: the private key as PKCS #12, encoded in base64."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=_BITS)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, user_id[:64])])
    principal = f"{user_id}@localhost".encode()
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + _VALID_FOR)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .add_extension(
            x509.SubjectAlternativeName([x509.OtherName(_USER_PRINCIPAL_NAME, _utf8_string(principal))]), critical=False
        )
        .sign(key, hashes.SHA256())
    )
    public = certificate.public_bytes(serialization.Encoding.PEM).decode()
    private = pkcs12.serialize_key_and_certificates(None, key, certificate, None, serialization.NoEncryption())
    return KeyMaterial(public, read_x509(public).fingerprint, base64.b64encode(private).decode())


def encrypt_for(public: str, text: str) -> str | None:
    """Encrypt ``text`` with the OpenSSH RSA key ``public``, and return the result encoded in base64.

    Returns None if the key is not an RSA key, or is too short for the text. The owner of the key decrypts the decoded
    result with ``openssl pkeyutl -decrypt``.
    """
    try:
        key = serialization.load_ssh_public_key(public.encode("ascii"))
        if not isinstance(key, rsa.RSAPublicKey):
            return None
        return base64.b64encode(key.encrypt(text.encode(), padding.PKCS1v15())).decode()
    except (ValueError, UnsupportedAlgorithm):
        return None


def _utf8_string(value: bytes) -> bytes:
    """Return ``value`` as an ASN.1 UTF8String (DER)."""
    size = len(value)
    length = bytes([size]) if size < 128 else bytes([0x82]) + size.to_bytes(2)
    return b"\x0c" + length + value


def _colons(digest: bytes) -> str:
    return binascii.hexlify(digest, ":").decode()
