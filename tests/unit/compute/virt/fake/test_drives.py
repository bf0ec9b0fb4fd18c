# SPDX-License-Identifier: Apache-2.0
"""What is on a config drive, version by version, and when a simulated host has one."""

import base64
from dataclasses import replace
from pathlib import Path

import pytest

from kilonova.compute.config_drives import files_of, iso9660_of
from kilonova.compute.virt.fake import FakeDriver
from kilonova.errors import DriverError
from kilonova.model.allocation_ratios import AllocationRatios
from kilonova.model.config_drive import ConfigDrive, PublicKey
from kilonova.model.guest_devices import GuestCell, GuestDevices
from kilonova.model.instance import GuestSpec
from kilonova.scenario.model import SimulatedHost
from support.drives import Drive, find_drive

DRIVE = ConfigDrive(
    "Web ü",
    availability_zone="east",
    launch_index=2,
    reservation_id="r-1",
    domain="example.org",
    flavor_name="m1.small",
    key=PublicKey("mine", "ssh", "ssh-ed25519 AAAA me"),
    vendor_data={"region": ["north"]},
    admin_pass="s3cret",
)
GUEST = GuestSpec(
    uuid="7d3f2c44-0000-4000-8000-000000000001",
    name="instance-000000ff",
    hostname="web",
    vcpus=4,
    memory_mib=64,
    root_gib=1,
    image_ref="70a599e0-31e7-49b7-b260-868f441e862b",
    project_id="wonder",
    metadata={"role": "web"},
    user_data=base64.b64encode(b"#!/bin/sh\x00\xff").decode(),
    reserved=GuestDevices((GuestCell(0, frozenset(range(4)), 64, ((3, 7), (1, 5))),)),
    config_drive=DRIVE,
)
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


# --- on a simulated host ----------------------------------------------------------------------------------------------


def host(folder: Path, **facts: int) -> FakeDriver:
    return FakeDriver(SimulatedHost("node/1", **facts), folder / "node1.json", AllocationRatios())


def test_a_drive_lives_as_long_as_its_guest(tmp_path: Path) -> None:
    driver = host(tmp_path)
    driver.spawn(GUEST)
    driver.spawn(replace(GUEST, uuid="without", config_drive=None))
    (file,) = tmp_path.glob("config_drives/*/*")
    assert (file.name, file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (
        f"{GUEST.uuid}.iso",
        0o600,
        0o700,
    )
    (file.parent / "nobody.iso").touch()
    (file.parent / f"{GUEST.uuid}.part").touch()
    driver = host(tmp_path)  # starts again
    assert list(tmp_path.glob("config_drives/*/*")) == [file]
    driver.move_away(GUEST.uuid, "node2")
    assert find_drive(tmp_path, GUEST.uuid) is not None
    driver.confirm_move(GUEST.uuid)
    assert find_drive(tmp_path, GUEST.uuid) is None


def test_a_rebuilt_guest_has_a_new_one(tmp_path: Path) -> None:
    driver = host(tmp_path)
    driver.spawn(GUEST)
    driver.rebuild(replace(GUEST, metadata={"role": "db"}, ordered_at=None), power_on=True)
    found = find_drive(tmp_path, GUEST.uuid)
    assert found is not None
    assert found.json(f"{LATEST}/meta_data.json")["meta"] == {"role": "db"}


def test_what_is_not_made_leaves_none(tmp_path: Path) -> None:
    driver = host(tmp_path, failing_spawns=1)
    with pytest.raises(DriverError):
        driver.spawn(GUEST)
    (tmp_path / "node1.new").mkdir()  # so that the file of guests cannot be written
    with pytest.raises(DriverError):
        driver.spawn(GUEST)
    assert find_drive(tmp_path, GUEST.uuid) is None
    (tmp_path / "node1.new").rmdir()
    driver.spawn(GUEST)
    assert find_drive(tmp_path, GUEST.uuid) is not None
    driver.destroy(GUEST.uuid)
    assert find_drive(tmp_path, GUEST.uuid) is None
