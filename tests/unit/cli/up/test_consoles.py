# SPDX-License-Identifier: Apache-2.0
"""What `kilonova up` tells users and the proxy of consoles of each other."""

from pathlib import Path

from kilonova.cli.up.consoles import ConsolePart, is_possible
from kilonova.cli.wiring.addresses import Address
from kilonova.config.console_proxy import load_proxy_settings

LOGIN = {"auth_type": "password", "auth_url": "http://127.0.0.1:5000", "username": "console", "password": "pass%word$1"}
COMPUTE = "http://127.0.0.1:8774/compute/v2.1"


def part(folder: Path, host: str = "127.0.0.1") -> ConsolePart:
    return ConsolePart(folder, Address(host, 6180), Address(host, 6183))


def test_users_are_told_where_the_proxy_listens(tmp_path: Path) -> None:
    told = part(tmp_path, "::1").options()
    assert told["vnc"] == {"novncproxy_base_url": "http://[::1]:6180/vnc_lite.html"}
    assert told["serial_console"] == {"enabled": "true", "base_url": "ws://[::1]:6183/"}


def test_the_proxy_has_a_file_of_its_own(tmp_path: Path) -> None:
    operator = {
        "DEFAULT": {"web": "/opt/novnc", "debug": "true", "transport_url": "rabbit://secret"},
        "console": {"allowed_origins": "a,b", "max_connections": "7"},
        "vnc": {"novncproxy_port": "1"},
        "database": {"connection": "secret"},
    }
    file = part(tmp_path).write(COMPUTE, LOGIN, operator)
    assert file.stat().st_mode & 0o777 == 0o600
    assert "secret" not in file.read_text()
    settings = load_proxy_settings([str(file)])
    proxy = settings.proxy
    assert (proxy.vnc_host, proxy.vnc_port, proxy.serial_port) == ("127.0.0.1", 6180, 6183)
    assert (proxy.web, proxy.allowed_origins, proxy.max_connections) == (Path("/opt/novnc"), ("a", "b"), 7)
    assert settings.log.debug
    assert settings.consoles.serial_enabled
    from kilonova.identity.keystone import compute_adapter_of

    adapter = compute_adapter_of(settings.conf)
    assert adapter is not None
    assert adapter.endpoint_override == COMPUTE
    assert settings.conf.nova.password == LOGIN["password"]


def test_without_companions_the_operator_says_who_asks(tmp_path: Path) -> None:
    assert not is_possible({"keystone_authtoken": LOGIN})
    operator = {"service_user": LOGIN, "nova": {"endpoint_override": "https://nova.example/v2.1"}}
    assert is_possible(operator)
    text = part(tmp_path).write(COMPUTE, None, operator).read_text()
    assert "endpoint_override = https://nova.example/v2.1\n" in text
    assert COMPUTE not in text
    assert text.count("username = console\n") == 1


def test_novnc_is_looked_for_where_it_shall_be(tmp_path: Path) -> None:
    missing = {"DEFAULT": {"web": str(tmp_path)}}
    assert part(tmp_path).lacks_novnc(missing)
    assert not part(tmp_path).lacks_novnc({"DEFAULT": {"web": ""}})
    (tmp_path / "vnc_lite.html").touch()
    assert not part(tmp_path).lacks_novnc(missing)
