# SPDX-License-Identifier: Apache-2.0
"""Files of noVNC over HTTP."""

from pathlib import Path

import pytest

from kilonova.model.console import ConsoleProtocol
from support.console_hosts import TOKEN, hypervisor, proxy_before
from support.viewers import get, refused

VNC = ConsoleProtocol.VNC


def test_files(web: Path) -> None:
    with proxy_before(1, VNC, web=web) as (_, port):
        status, headers, body = get(port, f"/vnc_lite.html?path=%3Ftoken%3D{TOKEN}")
        assert (status, body) == (200, b"<html>noVNC</html>")
        assert headers["Content-Type"] == "text/html; charset=utf-8"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert get(port, "/vnc_auto.html")[2] == body, "its name before noVNC 1.0"
        status, headers, body = get(port, "/core/rfb.js")
        assert (status, len(body), headers["Content-Type"]) == (200, 3_000_000, "text/javascript; charset=utf-8")
        status, headers, body = get(port, "/core/rfb.js", "HEAD")
        assert (status, headers["Content-Length"], body) == (200, "3000000", b"")
        assert get(port, "/healthcheck")[::2] == (200, b"OK")


@pytest.mark.parametrize(
    "path",
    [
        "/", "/core", "/core/", "/missing", "/../secret", "/core/../../secret", "/%2e%2e/secret", "/..%2fsecret",
        "//etc/passwd", "/%2fetc/passwd", "/link", "/%00", "/" + "x" * 5000, "/%ff",
    ],
)  # fmt: skip
def test_what_is_not_there(web: Path, path: str) -> None:
    with proxy_before(1, VNC, web=web) as (_, port):
        assert get(port, path)[::2] == (404, b"")


def test_other_methods(web: Path) -> None:
    with proxy_before(1, VNC, web=web) as (_, port):
        assert get(port, "/vnc_lite.html", "DELETE")[0] == 405


def test_without_novnc_a_browser_is_told_how_to_get_it(tmp_path: Path) -> None:
    with hypervisor(lambda each: each.close()) as host, proxy_before(host, VNC, web=tmp_path / "none") as (_, port):
        status, headers, body = get(port, "/vnc_lite.html")
        assert (status, headers["Content-Type"]) == (404, "text/html; charset=utf-8")
        assert b"apt-get install novnc" in body
        assert refused(port, f"/?token={TOKEN}") == 101
        assert refused(port, "/?token=none-such-token") == 403
