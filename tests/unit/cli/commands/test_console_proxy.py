# SPDX-License-Identifier: Apache-2.0
"""`kilonova console-proxy`: its addresses, and configuration errors."""

from pathlib import Path

import pytest

from kilonova.bundled_services.free_ports import free_ports
from kilonova.cli.commands.console_proxy import make_proxy
from kilonova.cli.main import main
from kilonova.config.console_proxy import load_proxy_settings
from kilonova.errors import ConfigurationError


def conf(folder: Path, text: str) -> str:
    (folder / "proxy.conf").write_text(text)
    return str(folder / "proxy.conf")


USER = "auth_type = admin_token\nendpoint = http://127.0.0.1:1/compute/v2.1\ntoken = admin\n"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", "[service_user]"),
        (f"[nova]\n{USER}[vnc]\nauth_schemes = vencrypt,none\n", "[vnc] auth_schemes"),
        (f"[nova]\n{USER}[vnc]\nenabled = false\n", "[serial_console] enabled"),
        (f"[DEFAULT]\nssl_only = true\n[nova]\n{USER}", "[DEFAULT] cert"),
        (f"[DEFAULT]\ncert = /nonexistent.pem\n[nova]\n{USER}", "/nonexistent.pem"),
        ("[console]\nssl_minimum_version = ssl3\n", "ssl_minimum_version"),
        ("[console]\nmax_connections = 0\n", "max_connections"),
    ],
)
def test_settings_that_lead_nowhere(tmp_path: Path, text: str, names: str, capsys: pytest.CaptureFixture[str]) -> None:
    port = free_ports(1)[0]
    where = f"[vnc]\nnovncproxy_host = 127.0.0.1\nnovncproxy_port = {port}\n"
    assert (
        main(["console-proxy", "--config-file", conf(tmp_path, text), "--config-file", str(_more(tmp_path, where))])
        == 2
    )
    told = capsys.readouterr().err
    assert names in told
    assert len(told.splitlines()) == 1


def _more(folder: Path, text: str) -> Path:
    file = folder / "more.conf"
    file.write_text(text)
    return file


def test_listens_where_it_is_told(tmp_path: Path) -> None:
    vnc, serial = free_ports(2)
    text = f"[vnc]\nnovncproxy_host = 127.0.0.1\nnovncproxy_port = {vnc}\n[serial_console]\nenabled = true\n"
    more = f"serialproxy_host = 127.0.0.1\nserialproxy_port = {serial}\n[nova]\n{USER}"
    proxy = make_proxy(load_proxy_settings([conf(tmp_path, text + more)]))
    proxy.start()
    with pytest.raises(Exception, match=f":{vnc}"):
        make_proxy(load_proxy_settings([conf(tmp_path, text + more)]))
    proxy.stop()


def test_no_file_no_proxy(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["console-proxy"]) == 2
    assert "--config-file" in capsys.readouterr().err
    with pytest.raises(ConfigurationError):
        load_proxy_settings(["/nonexistent"])
