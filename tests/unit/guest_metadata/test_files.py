# SPDX-License-Identifier: Apache-2.0
"""Files on a config drive, in every version of the metadata format."""

import base64
from dataclasses import replace

import pytest

from kilonova.compute.config_drives import iso9660_of
from kilonova.guest_metadata import files_of
from kilonova.model.config_drive import ConfigDrive
from support.drives import DRIVE, GUEST, Drive
from support.interfaces import interface

LATEST = "openstack/latest"


SINCE = {
    "random_seed": "2013-04-04",
    "project_id": "2015-10-15",
    "devices": "2016-06-30",
    "dedicated_cpus": "2020-10-14",
}


FILES_SINCE = {
    "vendor_data.json": "2013-10-17",
    "network_data.json": "2015-10-15",
    "vendor_data2.json": "2016-10-06",
}


@pytest.fixture(scope="module")
def drive() -> Drive:
    return Drive(iso9660_of(files_of(GUEST, DRIVE)))


def versions(drive: Drive) -> set[str]:
    return {path.split("/")[1] for path in drive.files if path.startswith("openstack/")}


def test_guests_find_it_by_its_label(drive: Drive) -> None:
    assert drive.label == "config-2"


def test_the_newest_version_says_everything(drive: Drive) -> None:
    data = drive.json(f"{LATEST}/meta_data.json")
    seed = data.pop("random_seed")
    assert len(base64.b64decode(seed)) == 512
    assert data == {
        "uuid": GUEST.uuid,
        "name": "Web ü",
        "hostname": "web.example.org",
        "launch_index": 2,
        "availability_zone": "east",
        "meta": {"role": "web"},
        "admin_pass": "s3cret",
        "public_keys": {"mine": "ssh-ed25519 AAAA me"},
        "keys": [{"name": "mine", "type": "ssh", "data": "ssh-ed25519 AAAA me"}],
        "project_id": "wonder",
        "devices": [],
        "dedicated_cpus": [1, 3],
    }
    assert drive.json(f"{LATEST}/network_data.json") == {"links": [], "networks": [], "services": []}
    assert drive.json(f"{LATEST}/vendor_data.json") == {"region": ["north"]}
    assert drive.json(f"{LATEST}/vendor_data2.json") == {"static": {"region": ["north"]}}
    assert drive.files[f"{LATEST}/user_data"] == b"#!/bin/sh\x00\xff"


def test_each_version_says_what_it_said_first(drive: Drive) -> None:
    assert len(versions(drive)) == 11
    for version in versions(drive) - {"latest"}:
        data = drive.json(f"openstack/{version}/meta_data.json")
        assert {name for name in SINCE if name in data} == {name for name, first in SINCE.items() if version >= first}
        files = {name for name in FILES_SINCE if f"openstack/{version}/{name}" in drive.files}
        assert files == {name for name, first in FILES_SINCE.items() if version >= first}
        assert drive.files[f"openstack/{version}/user_data"] == b"#!/bin/sh\x00\xff"
        assert (data["uuid"], data["admin_pass"]) == (GUEST.uuid, "s3cret")


def test_as_ec2_says_it(drive: Drive) -> None:
    for version in ("2009-04-04", "latest"):
        data = drive.json(f"ec2/{version}/meta-data.json")
        assert data["instance-id"] == "i-000000ff"
        assert data["hostname"] == data["local-hostname"] == "web.example.org"
        assert data["placement"] == {"availability-zone": "east"}
        assert data["public-keys"] == {"0": {"openssh-key": "ssh-ed25519 AAAA me"}}
        assert (data["ami-launch-index"], data["instance-type"], data["reservation-id"]) == (2, "m1.small", "r-1")
        assert drive.files[f"ec2/{version}/user-data"] == b"#!/bin/sh\x00\xff"


def test_interfaces_are_in_both_layouts() -> None:
    vif = interface("private", "10.0.0.5", floating=("172.24.4.9",), security_groups=("default",), tag="nic1")
    drive = Drive(iso9660_of(files_of(replace(GUEST, vifs=(vif,)), DRIVE)))
    (link,) = drive.json(f"{LATEST}/network_data.json")["links"]
    assert link["ethernet_mac_address"] == vif.mac
    assert drive.json(f"{LATEST}/network_data.json")["networks"][0]["type"] == "ipv4_dhcp"
    assert drive.json(f"{LATEST}/meta_data.json")["devices"][0]["tags"] == ["nic1"]
    ec2 = drive.json("ec2/latest/meta-data.json")
    assert (ec2["local-ipv4"], ec2["public-ipv4"], ec2["security-groups"]) == ("10.0.0.5", "172.24.4.9", ["default"])


def test_what_nobody_gave_is_not_there() -> None:
    plain = ConfigDrive("vm", domain="example.org")
    guest = replace(GUEST, hostname="web.other.example", metadata={}, user_data=None)
    drive = Drive(iso9660_of(files_of(guest, plain)))
    data = drive.json(f"{LATEST}/meta_data.json")
    assert data["hostname"] == "web.other.example"
    assert not {"meta", "admin_pass", "public_keys", "keys"} & set(data)
    assert not [path for path in drive.files if "user" in path]
    assert drive.json(f"{LATEST}/vendor_data.json") == {}
    assert "public-keys" not in drive.json("ec2/latest/meta-data.json")


def test_secrets_are_not_shown() -> None:
    assert "s3cret" not in repr(GUEST)
    assert str(GUEST.user_data) not in repr(GUEST)
