# SPDX-License-Identifier: Apache-2.0
"""Connections over TLS, with a stand-in for the database server. tests/guests/test_ovn_machines.py has a real one."""

import json
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kilonova.bundled_services.certificate_authority import CertificateAuthority
from kilonova.bundled_services.certificate_files import Certificate
from kilonova.bundled_services.ovn_connection import OvnConnection
from kilonova.bundled_services.ovsdb_client import OvsdbClient
from kilonova.errors import Unavailable


class Server:
    """A server for one client, which must have a certificate, and gets an empty table."""

    def __init__(self, certificate: Certificate) -> None:
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate.certificate, certificate.key)
        self._context.load_verify_locations(certificate.authority)
        self._context.verify_mode = ssl.CERT_REQUIRED
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.target = f"ssl:127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        plain, _ = self._listener.accept()
        with plain:
            plain.settimeout(5)
            try:
                with self._context.wrap_socket(plain, server_side=True) as peer:
                    number = json.loads(peer.recv(65_536))["id"]
                    peer.sendall(json.dumps({"id": number, "error": None, "result": [{"rows": []}]}).encode())
                    peer.recv(1)
            except OSError:
                return

    def close(self) -> None:
        self._thread.join()
        self._listener.close()


@pytest.fixture
def authority(tmp_path: Path) -> CertificateAuthority:
    return CertificateAuthority(tmp_path / "own", "databases")


@pytest.fixture
def server(authority: CertificateAuthority) -> Iterator[Server]:
    made = Server(authority.certify("server", serves=True))
    yield made
    made.close()


def read(target: str, certificate: Certificate) -> int:
    client = OvsdbClient(OvnConnection(target, certificate), "OVN_Southbound")
    try:
        return len(client.read("Chassis", ("name",)))
    finally:
        client.close()


def test_a_client_with_a_certificate_reads(server: Server, authority: CertificateAuthority) -> None:
    assert read(server.target, authority.certify("metal-2")) == 0


def test_a_client_of_another_authority_is_refused(
    server: Server, authority: CertificateAuthority, tmp_path: Path
) -> None:
    other = CertificateAuthority(tmp_path / "other", "databases").certify("metal-2")
    other.authority.write_bytes(authority.certify("metal-2").authority.read_bytes())  # the client trusts the server
    with pytest.raises(Unavailable, match="OVN_Southbound"):
        read(server.target, other)


def test_a_server_of_another_authority_is_refused(server: Server, tmp_path: Path) -> None:
    other = CertificateAuthority(tmp_path / "other", "databases").certify("metal-2")
    with pytest.raises(Unavailable, match="certificate verify failed"):
        read(server.target, other)


def test_a_host_cannot_pose_as_the_server(authority: CertificateAuthority) -> None:
    server = Server(authority.certify("metal-3"))
    try:
        with pytest.raises(Unavailable, match="certificate verify failed"):
            read(server.target, authority.certify("metal-2"))
    finally:
        server.close()


def test_the_options_of_programs(tmp_path: Path) -> None:
    assert OvnConnection("unix:/db.sock").options == ()
    files = Certificate(tmp_path, "metal-2")
    assert OvnConnection("ssl:192.0.2.1:6642", files).options == (
        f"--private-key={tmp_path}/metal-2.key",
        f"--certificate={tmp_path}/metal-2.pem",
        f"--ca-cert={tmp_path}/ca.pem",
    )
    with pytest.raises(ValueError, match="neither a Unix socket nor a TLS connection"):
        OvnConnection("ssl:192.0.2.1:6642").open(1)
