# SPDX-License-Identifier: Apache-2.0
"""Certificates are made once, kept, and renewed before they end."""

import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from kilonova.bundled_services.certificate_authority import CertificateAuthority, end_of
from kilonova.bundled_services.certificate_files import Certificate
from kilonova.errors import ConfigurationError

YEARS = timedelta(days=3400)


def read(made: Certificate) -> x509.Certificate:
    return x509.load_pem_x509_certificate(made.certificate.read_bytes())


def test_certificates_are_signed_by_the_authority_and_kept(tmp_path: Path) -> None:
    folder = tmp_path / "tls"
    made = CertificateAuthority(folder, "databases").certify("node1")
    authority = x509.load_pem_x509_certificate(made.authority.read_bytes())
    found = read(made)
    found.verify_directly_issued_by(authority)
    assert found.subject.rfc4514_string() == "CN=node1"
    assert authority.subject.rfc4514_string() == "CN=databases"
    assert not found.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert read(CertificateAuthority(folder, "databases").certify("node1")) == found


def test_what_ends_soon_is_made_again(tmp_path: Path) -> None:
    first = read(CertificateAuthority(tmp_path, "databases").certify("node1"))
    later = CertificateAuthority(tmp_path, "databases", now=datetime.now(UTC) + YEARS)
    again = later.certify("node1")
    assert read(again) != first
    read(again).verify_directly_issued_by(x509.load_pem_x509_certificate(again.authority.read_bytes()))


@pytest.mark.parametrize("name", ["ca.pem", "ca.key", "node1.key", "node1.pem"])
@pytest.mark.parametrize("content", ["", "-----BEGIN CERTIFICATE-----\nnonsense\n", None])
def test_damaged_files_are_replaced(tmp_path: Path, name: str, content: str | None) -> None:
    CertificateAuthority(tmp_path, "databases").certify("node1")
    if content is None:
        (tmp_path / name).unlink()
    else:
        (tmp_path / name).write_text(content)
    made = CertificateAuthority(tmp_path, "databases").certify("node1")
    read(made).verify_directly_issued_by(x509.load_pem_x509_certificate(made.authority.read_bytes()))


@pytest.mark.parametrize("name", ["", "x" * 65, "a/b", "..", "ca"])
def test_names_that_a_certificate_cannot_have(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigurationError, match="cannot have the name"):
        CertificateAuthority(tmp_path, "databases").certify(name)


def test_a_client_cannot_serve(tmp_path: Path) -> None:
    authority = CertificateAuthority(tmp_path, "databases")
    usages = [
        read(made).extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        for made in (authority.certify("server", serves=True), authority.certify("node1"))
    ]
    server, client = (
        x509.ExtendedKeyUsage([usage]) for usage in (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH)
    )
    assert usages == [server, client]


def test_the_end_of_a_certificate_is_known(tmp_path: Path) -> None:
    made = CertificateAuthority(tmp_path, "databases").certify("node1")
    assert end_of(made) - datetime.now(UTC) > YEARS
    made.key.write_text("")
    with pytest.raises(ConfigurationError, match="is damaged"):
        end_of(made)
