# SPDX-License-Identifier: Apache-2.0
"""How a control process is told who its own user is, and where hosts reach it."""

import logging
from pathlib import Path

import pytest

from kilonova.cli.wiring.image_tickets import ImageOffers, image_session
from kilonova.config.load import load_settings
from kilonova.config.settings import Settings
from kilonova.errors import ConfigurationError
from kilonova.images.tickets import Direction, TicketKey, TicketOffice
from kilonova.model.image import Image

GLANCE = "[glance]\nendpoint_override = http://images.example.org:9292\n"
LOGIN = (
    "auth_type = password\nauth_url = http://identity.example.org/v3\nusername = nova\npassword = s3cret\n"
    "project_name = service\nuser_domain_name = Default\nproject_domain_name = Default\n"
)
IMAGE = Image("image-1", size_bytes=7, hash_algo="sha512", hash_value="abc")


def settings(folder: Path, text: str) -> Settings:
    (folder / "kilonova.conf").write_text(f"[database]\nconnection = sqlite://\n{text}")
    return load_settings([str(folder / "kilonova.conf")])


def office() -> TicketOffice:
    return TicketOffice(lambda: (TicketKey(1, b"k" * 32, 0.0),), lambda: 1000.0, 600.0)


@pytest.mark.parametrize(
    "text",
    [
        f"{GLANCE}[service_user]\n{LOGIN}",
        f"{GLANCE}{LOGIN}",
        f"{GLANCE}auth_section = keystone_authtoken\n[keystone_authtoken]\n{LOGIN}",
    ],
)
def test_kilonovas_user_is_where_operators_name_it(tmp_path: Path, text: str) -> None:
    session = image_session(settings(tmp_path, text))
    assert session.auth.auth_url == "http://identity.example.org/v3"
    assert session.timeout == 60.0


def test_how_glance_is_reached_is_said_in_its_own_section(tmp_path: Path) -> None:
    text = f"{GLANCE}cafile = /ca.pem\ntimeout = 7\n[service_user]\n{LOGIN}"
    session = image_session(settings(tmp_path, text))
    assert (session.verify, session.timeout) == ("/ca.pem", 7)


def test_without_a_user_there_is_a_warning_and_hosts_are_told_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    told = settings(tmp_path, GLANCE)
    assert image_session(told) is None
    assert "Hosts get no image data" in caplog.text
    assert ImageOffers(told, office(), available=False).to_read("node1", IMAGE) is None
    caplog.clear()
    assert image_session(settings(tmp_path, "")) is None
    assert caplog.text == ""


def test_a_user_that_is_not_told_completely_is_a_mistake_of_the_configuration(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"\[service_user\] has no valid credentials for Kilonova's user"):
        image_session(settings(tmp_path, f"{GLANCE}[service_user]\nauth_type = passwort\n"))


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("[api]\nbind = 127.0.0.1:8779\n", "http://127.0.0.1:8779"),
        ("[api]\nbind = [::1]:8779\ncert_file = /c.pem\n", "https://[::1]:8779"),
        ("[images]\nendpoint = https://cloud.example.org/\n", "https://cloud.example.org"),
    ],
)
def test_hosts_are_told_where_the_control_processes_are(tmp_path: Path, text: str, url: str) -> None:
    offers = office()
    data = ImageOffers(settings(tmp_path, text), offers, available=True).to_read("rack 1/ö", IMAGE)
    assert data is not None
    assert data.url == f"{url}/agents/v1/hosts/rack%201%2F%C3%B6/images/image-1/file"
    assert (data.location, data.size_bytes, data.hash_algo, data.hash_value) == ("", 7, "sha512", "abc")
    ticket = offers.read(data.ticket)
    assert (ticket.host, ticket.image_id, ticket.direction) == ("rack 1/ö", "image-1", Direction.READ)


def test_hosts_that_share_the_store_are_told_where_it_is(tmp_path: Path) -> None:
    told = settings(tmp_path, "[images]\nshared_folder = /srv/glance images\n")
    data = ImageOffers(told, office(), available=True).to_read("node1", IMAGE)
    assert data is not None
    assert data.location == "file:///srv/glance%20images/image-1"
    assert data.ticket
