# SPDX-License-Identifier: Apache-2.0
"""From POST /servers to the disk that a guest finds, and who else may read what is on it."""

import base64
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from kilonova.cli.wiring.control import image_id
from kilonova.db.core import tables as t
from kilonova.errors import ConfigurationError
from support.control import Control, NewControl
from support.drives import Drive, find_drive

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHE5S1eWoSlVXPp1v9oGoxSDfJXvZmZmJ8DqzJ1pYh1t user@example"
SCENARIO = """
images: [{name: cirros}, {name: told, properties: {img_config_drive: mandatory}}]
hosts: [{name: node1, vcpus: 8, memory_mib: 16384}, {name: node2, vcpus: 8, memory_mib: 16384}]
"""
USER_DATA = b"#cloud-config\npassword: wisteria\n"

Start = Callable[..., Control]


@pytest.fixture
def start(new_control: NewControl) -> Start:
    return lambda more="": new_control(scenario=SCENARIO, more=more)


def drive_of(control: Control, uuid: str) -> Drive | None:
    return find_drive(control.folder / "hypervisors", uuid)


def meta_data(control: Control, uuid: str) -> Any:
    drive = drive_of(control, uuid)
    assert drive is not None
    return drive.json("openstack/latest/meta_data.json")


def test_the_drive_of_a_server(start: Start, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    (tmp_path / "vendor.json").write_text('{"cloud": "nova"}')
    control = start(f"[api]\ndhcp_domain = cloud.example\nvendordata_jsonfile_path = {tmp_path}/vendor.json\n")
    assert control.member.post("/os-keypairs", {"keypair": {"name": "k", "public_key": KEY}}).status == 201
    asked = {
        "name": "Web 1",
        "config_drive": True,
        "key_name": "k",
        "metadata": {"role": "web"},
        "user_data": base64.b64encode(USER_DATA).decode(),
        "adminPass": "heliotrope",
    }
    answer = control.ask(**asked)
    uuid = answer.body["server"]["id"]
    assert answer.body["server"]["adminPass"] == "heliotrope"
    control.settle()
    assert control.member.get(f"/servers/{uuid}").body["server"]["config_drive"] == "True"
    drive = drive_of(control, uuid)
    assert drive is not None
    data = meta_data(control, uuid)
    assert (data["uuid"], data["hostname"], data["name"]) == (uuid, "web-1.cloud.example", "Web 1")
    assert (data["meta"], data["admin_pass"], data["availability_zone"]) == ({"role": "web"}, "heliotrope", "nova")
    assert data["keys"] == [{"name": "k", "type": "ssh", "data": KEY}]
    assert drive.files["openstack/latest/user_data"] == USER_DATA
    assert drive.json("openstack/latest/vendor_data2.json") == {"static": {"cloud": "nova"}}
    # A move makes it anew elsewhere, with the key as it was, and the password has been forgotten.
    control.member.delete("/os-keypairs/k")
    (tmp_path / "vendor.json").write_text('{"cloud": "another"}')
    control.add_flavor("2", ram=1024)
    control.member.post(f"/servers/{uuid}/action", {"resize": {"flavorRef": "2"}})
    control.settle()
    assert len(list(control.folder.glob(f"hypervisors/config_drives/*/{uuid}.iso"))) == 2
    control.member.post(f"/servers/{uuid}/action", {"confirmResize": None})
    control.check()
    assert meta_data(control, uuid)["keys"] == [{"name": "k", "type": "ssh", "data": KEY}]
    assert "admin_pass" not in meta_data(control, uuid)
    drive = drive_of(control, uuid)
    assert drive is not None
    assert drive.json("openstack/latest/vendor_data.json") == {"cloud": "another"}
    control.member.delete(f"/servers/{uuid}")
    control.settle()
    assert drive_of(control, uuid) is None
    for secret in ("heliotrope", "wisteria", str(asked["user_data"])):
        assert secret not in caplog.text


def test_secrets_are_in_no_journal(start: Start) -> None:
    """User data are kept with what was asked for a server, and the password nowhere, also while it is being built."""
    control = start()
    journals: list[str] = []
    write = control.process.database.write_batched

    def write_and_look(*args: Any) -> Any:
        outcome = write(*args)
        with control.process.database.read() as connection:
            for table in t.metadata.sorted_tables:
                if table is not t.request_specs:
                    journals.extend(map(repr, connection.execute(sa.select(table))))
        return outcome

    control.process.database.write_batched = write_and_look  # type: ignore[method-assign]
    control.boot(config_drive=True, adminPass="heliotrope", user_data=base64.b64encode(USER_DATA).decode())
    assert len(journals) > 100
    everything = "".join(journals)
    assert "heliotrope" not in everything
    assert base64.b64encode(USER_DATA).decode() not in everything
    with control.process.database.read() as connection:
        assert "heliotrope" not in repr(connection.execute(sa.select(t.request_specs)).all())


def test_a_rebuild_makes_it_anew(start: Start) -> None:
    control = start()
    control.member.post("/os-keypairs", {"keypair": {"name": "k", "public_key": KEY}})
    uuid = control.boot(config_drive=True, metadata={"a": "1"})["id"]
    rebuild = {"imageRef": image_id("cirros"), "metadata": {"b": "2"}, "key_name": "k", "adminPass": "heliotrope"}
    assert control.member.post(f"/servers/{uuid}/action", {"rebuild": rebuild}).status == 202
    control.check()
    data = meta_data(control, uuid)
    assert (data["meta"], data["admin_pass"], data["keys"][0]["data"]) == ({"b": "2"}, "heliotrope", KEY)
    control.member.delete("/os-keypairs/k")
    control.member.post(f"/servers/{uuid}/action", {"rebuild": {"imageRef": image_id("cirros")}})
    control.check()
    assert meta_data(control, uuid)["public_keys"] == {"k": KEY}


def test_who_has_one(start: Start) -> None:
    control = start()
    for asked, has_one in (
        ({}, False),
        ({"config_drive": "false"}, False),
        ({"config_drive": ""}, False),
        ({"config_drive": "yes"}, True),
        ({"imageRef": image_id("told")}, True),
        ({"imageRef": image_id("told"), "config_drive": False}, True),
    ):
        shown = control.boot(**asked)
        assert shown["config_drive"] == ("True" if has_one else "")
        assert (drive_of(control, shown["id"]) is not None) == has_one
    control.check()


def test_everybody_has_one_where_it_is_forced(start: Start) -> None:
    control = start("[DEFAULT]\nforce_config_drive = true\n")
    shown = control.boot()
    assert shown["config_drive"] == "True"
    assert meta_data(control, shown["id"])["uuid"] == shown["id"]


@pytest.mark.parametrize(
    ("content", "words"), [(None, "cannot be read"), ("{", "is not valid JSON"), ("[1]", "must contain a JSON object")]
)
def test_vendor_data_that_cannot_be_read_stop_the_start(
    start: Start, tmp_path: Path, content: str | None, words: str
) -> None:
    if content is not None:
        (tmp_path / "vendor.json").write_text(content)
    with pytest.raises(ConfigurationError, match=rf"vendordata_jsonfile_path.*{words}"):
        start(f"[api]\nvendordata_jsonfile_path = {tmp_path}/vendor.json\n")


def test_a_format_that_is_not_offered_stops_the_start(start: Start) -> None:
    with pytest.raises(ConfigurationError, match="config_drive_format"):
        start("[DEFAULT]\nconfig_drive_format = vfat\n")
