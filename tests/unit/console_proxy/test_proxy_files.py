# SPDX-License-Identifier: Apache-2.0
"""A proxy without files, and a proxy over TLS."""

from pathlib import Path

import pytest

from kilonova.model.console import ConsoleProtocol
from kilonova.server.listening import tls_context
from support.certificates import Authority
from support.console_hosts import TOKEN, hypervisor, proxy_before
from support.viewers import connect, get, refused


def test_serial_consoles_come_without_files(web: Path) -> None:
    with proxy_before(1, ConsoleProtocol.SERIAL, web=web) as (_, port):
        assert get(port, "/vnc_lite.html")[::2] == (404, b"")


def test_tls(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    own = authority.certify("localhost", host="localhost")
    tls = tls_context(str(own.cert_file), str(own.key_file), "[DEFAULT] cert")
    with hypervisor(lambda each: each.sendall(b"hello")) as host, proxy_before(host, tls=tls) as (_, port):
        url = f"/?token={TOKEN}"
        viewer = connect(port, url, tls_ca=str(authority.ca_file), origin="https://localhost")
        assert viewer.read(5) == b"hello"
        viewer.close()
        assert refused(port, url, tls_ca=str(authority.ca_file), origin="http://localhost") == 403
        with pytest.raises((ConnectionError, OSError, Exception), match=r".+"):
            connect(port, url)
