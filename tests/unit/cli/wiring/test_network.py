# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from kilonova.cli.wiring.ineffective_options import ineffective_options
from kilonova.cli.wiring.network import network_client
from kilonova.config.load import load_settings
from kilonova.config.settings import Settings
from kilonova.errors import ConfigurationError, Unavailable
from support.fake_neutron import FakeNeutron
from support.fake_neutron.wsgi import NeutronOverHttp
from support.http_clients import serving

LOGIN = "auth_type = admin_token\ntoken = service\n"


def settings_with(folder: Path, text: str) -> Settings:
    (folder / "kilonova.conf").write_text(f"[database]\nconnection = sqlite://\n{text}")
    return load_settings([str(folder / "kilonova.conf")])


def test_without_the_section_or_without_credentials_there_is_no_network_service(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert network_client(settings_with(tmp_path, "")) is None
    assert caplog.text == ""
    user = "[service_user]\nauth_type = admin_token\nendpoint = http://127.0.0.1:1\ntoken = t\n"
    assert network_client(settings_with(tmp_path, f"{user}[neutron]\nregion_name = one\n")) is None
    assert "Servers get no networks: [neutron] has no credentials" in caplog.text


def test_a_client_of_the_service_user(tmp_path: Path) -> None:
    fake = FakeNeutron()
    with serving(NeutronOverHttp(fake)) as server:
        url = f"http://127.0.0.1:{server.port}"
        client = network_client(settings_with(tmp_path, f"[neutron]\n{LOGIN}endpoint = {url}\n"))
        assert client is not None
        network = fake.make_network()
        for _ in range(3):
            assert client.list("networks", id=[network])[0]["name"] == "private"
        assert fake.faults.count("GET networks") == 1
        other = network_client(
            settings_with(tmp_path, f"[neutron]\n{LOGIN}endpoint = http://127.0.0.1:1\nendpoint_override = {url}\n")
        )
        assert other is not None
        assert other.create("ports", {"network_id": network})["binding:vif_type"] == "unbound"


def test_a_process_that_may_not_act_changes_no_port(tmp_path: Path) -> None:
    fake = FakeNeutron()
    network = fake.make_network()
    with serving(NeutronOverHttp(fake)) as server:
        login = f"[neutron]\n{LOGIN}endpoint = http://127.0.0.1:{server.port}\n"
        client = network_client(settings_with(tmp_path, login), lambda: False)
        assert client is not None
        with pytest.raises(Unavailable, match="lost its lease"):
            client.create("ports", {"network_id": network, "device_id": "server"})
        assert client.list("ports") == []


def test_the_credentials_may_be_those_of_another_section(tmp_path: Path) -> None:
    user = "[service_user]\nauth_type = admin_token\nendpoint = http://127.0.0.1:1\ntoken = t\n"
    text = f"{user}[neutron]\nauth_section = service_user\nhttp_retries = 0\n"
    client = network_client(settings_with(tmp_path, text))
    assert client is not None
    with pytest.raises(Unavailable):
        client.list("networks")


def test_invalid_credentials_and_options(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"\[neutron\] has no valid credentials"):
        network_client(settings_with(tmp_path, "[neutron]\nauth_type = no-such-plugin\n"))
    with pytest.raises(ConfigurationError, match="http_retries"):
        settings_with(tmp_path, "[neutron]\nhttp_retries = -1\n")


def test_options_have_novas_defaults_and_those_without_effect_are_named(tmp_path: Path) -> None:
    settings = settings_with(tmp_path, f"[neutron]\n{LOGIN}region_name = one\n[cinder]\ncross_az_attach = true\n")
    neutron = settings.neutron
    assert (neutron.http_retries, neutron.extension_sync_interval_s, neutron.default_floating_pool) == (3, 600, "nova")
    (sentence,) = ineffective_options(settings.conf, settings.scheduler)
    assert "[cinder] cross_az_attach has no effect" in sentence
