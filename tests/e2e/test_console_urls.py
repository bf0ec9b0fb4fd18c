# SPDX-License-Identifier: Apache-2.0
"""Console URLs printed by the stock client lead to the consoles, without any manually started process."""

import json
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from support.stock_cloud import StockCloud
from support.supervisor import Supervisor
from support.viewers import connect, get, refused, see_screen
from support.waiting import wait_until

pytestmark = pytest.mark.cloud


def test_consoles_of_a_fresh_cloud(tmp_path: Path) -> None:
    (tmp_path / "novnc").mkdir()
    (tmp_path / "novnc" / "vnc_lite.html").write_text("<html>viewer</html>")
    more = tmp_path / "more.conf"
    more.write_text(
        f"[DEFAULT]\ndebug = true\nweb = {tmp_path / 'novnc'}\n[console]\nallowed_origins = horizon.example\n"
    )
    supervisor = Supervisor(tmp_path / "data", arguments=("--config-file", str(more))).start()
    try:
        supervisor.until_ready()
        use_consoles(StockCloud(supervisor))
    finally:
        supervisor.stop()


def use_consoles(cloud: StockCloud) -> None:
    wait = ("--flavor", "m1.tiny", "--image", "tiny", "--wait")
    uuid = cloud.show("server", "create", *wait, "first", cloud="kilonova-demo")["id"]

    def url(kind: str) -> str:
        return str(cloud.show("console", "url", "show", kind, "first", cloud="kilonova-demo")["url"])

    page = urlsplit(url("--novnc"))
    assert page.port == cloud.supervisor.console_ports[0]
    assert get(page.port, f"{page.path}?{page.query}")[::2] == (200, b"<html>viewer</html>")
    target = "/" + parse_qs(page.query)["path"][0]
    viewer = connect(page.port, target, origin="https://horizon.example")
    assert see_screen(viewer) == f"Kilonova simulated guest {uuid}"
    assert refused(page.port, target, origin="https://evil.example") == 403
    assert refused(page.port, target.replace("token=", "token=bad")) == 403

    serial = urlsplit(url("--serial"))
    assert (serial.scheme, serial.port) == ("ws", cloud.supervisor.console_ports[1])
    terminal = connect(serial.port, f"/?{serial.query}")
    terminal.read_until(b"login:")

    cloud.do("server", "delete", "--wait", "first", cloud="kilonova-demo")
    for each in (viewer, terminal):
        assert each.end() == (1000, "The console has ended.")
        each.close()
    assert refused(page.port, target) == 403

    log = cloud.supervisor.folder / "log"
    wait_until(
        lambda: (log / "console-proxy.log").read_text().count("end of the console") == 2,
        "the end of both consoles in the log",
    )
    tokens = [target.partition("token=")[2], parse_qs(serial.query)["token"][0]]
    for file in log.glob("*.log"):
        text = file.read_text()
        assert not [token for token in tokens if token in text], file
    may = json.loads((cloud.supervisor.folder / "passwords.json").read_text()).keys()
    assert "console" in may
    conf = (cloud.supervisor.folder / "console-proxy.conf").read_text()
    assert "connection" not in conf
    assert "username = console\n" in conf
