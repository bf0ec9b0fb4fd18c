# SPDX-License-Identifier: Apache-2.0
import base64

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519, padding, rsa

from kilonova.api.compute.key_material import encrypt_for, read_ssh, read_x509
from kilonova.errors import InvalidRequest

ED25519 = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"


def public_text(key: rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey) -> str:
    text = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return text.decode()


def test_the_fingerprint_of_a_key_ignores_its_comment() -> None:
    plain, commented = read_ssh(ED25519), read_ssh(f"{ED25519} alice@example.org")
    assert plain.fingerprint == commented.fingerprint
    assert len(plain.fingerprint.split(":")) == 16
    assert (commented.public, commented.private) == (f"{ED25519} alice@example.org", None)


@pytest.mark.parametrize("text", ["", "ssh-rsa", "ssh-rsa AAAA", "ssh-rsa ü", "-----BEGIN CERTIFICATE-----"])
def test_other_texts_are_neither_keys_nor_certificates(text: str) -> None:
    with pytest.raises(InvalidRequest, match="not an OpenSSH public key"):
        read_ssh(text)
    with pytest.raises(InvalidRequest, match="not a certificate"):
        read_x509(text)


def test_a_password_is_encrypted_for_rsa_keys_only() -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=1024)
    encrypted = encrypt_for(public_text(key), "secret")
    assert encrypted is not None
    assert key.decrypt(base64.b64decode(encrypted), padding.PKCS1v15()) == b"secret"
    assert encrypt_for(public_text(key), "x" * 200) is None, "the text is too long for the key"
    assert encrypt_for(ED25519, "secret") is None
    assert encrypt_for("no key", "secret") is None
