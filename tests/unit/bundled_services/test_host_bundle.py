# SPDX-License-Identifier: Apache-2.0
"""Bundles of hosts of other machines."""

import stat
from pathlib import Path

import pytest
from cryptography import x509

from kilonova.bundled_services.cloud_address import CloudAddress
from kilonova.bundled_services.host_bundle import make_bundle, read_bundle
from kilonova.errors import ConfigurationError

SOUTHBOUND = "ssl:192.0.2.1:6642"


@pytest.fixture
def cloud(tmp_path: Path) -> Path:
    """Data folder of a cloud with the host ``metal``."""
    folder = tmp_path / "cloud"
    (folder / "ovn").mkdir(parents=True)
    CloudAddress.of_cloud(folder).write(SOUTHBOUND, ["metal"], tunnels=True)
    return folder


def test_a_bundle_has_what_a_host_needs_and_no_key_of_the_authority(cloud: Path, tmp_path: Path) -> None:
    made = make_bundle(cloud, "metal-2", tmp_path / "bundle")
    assert read_bundle(tmp_path / "bundle") == made
    assert (made.host, made.southbound) == ("metal-2", SOUTHBOUND)
    assert {path.name for path in made.folder.iterdir()} == {"ca.pem", "metal-2.pem", "metal-2.key", "host.json"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in made.folder.iterdir()} == {0o600}
    found, authority = (
        x509.load_pem_x509_certificate(path.read_bytes())
        for path in (made.certificate.certificate, made.certificate.authority)
    )
    found.verify_directly_issued_by(authority)
    assert found.subject.rfc4514_string() == "CN=metal-2"
    assert made.cloud_address == "192.0.2.1"
    made.copy_to(tmp_path / "copy")
    assert (tmp_path / "copy" / "metal-2.key").read_bytes() == made.certificate.key.read_bytes()


@pytest.mark.parametrize("name", ["metal", "server", "client", "ca", "a/b", ""])
def test_names_that_a_host_of_another_machine_cannot_have(cloud: Path, tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigurationError):
        make_bundle(cloud, name, tmp_path / "bundle")
    assert not (tmp_path / "bundle").exists()


@pytest.mark.parametrize("name", ["host.json", "ca.pem", "metal-2.pem", "metal-2.key"])
def test_an_incomplete_bundle(cloud: Path, tmp_path: Path, name: str) -> None:
    (make_bundle(cloud, "metal-2", tmp_path / "bundle").folder / name).unlink()
    with pytest.raises(ConfigurationError, match="is no bundle of `kilonova compute certify`"):
        read_bundle(tmp_path / "bundle")


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"host": "metal-2"}'])
def test_a_damaged_bundle(cloud: Path, tmp_path: Path, content: str) -> None:
    (make_bundle(cloud, "metal-2", tmp_path / "bundle").folder / "host.json").write_text(content)
    with pytest.raises(ConfigurationError, match="is damaged"):
        read_bundle(tmp_path / "bundle")
