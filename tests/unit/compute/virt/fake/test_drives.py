# SPDX-License-Identifier: Apache-2.0
"""Config drives of simulated guests: when they are made, replaced and removed."""

from dataclasses import replace
from pathlib import Path

import pytest

from kilonova.compute.virt.fake import FakeDriver
from kilonova.errors import DriverError
from kilonova.model.allocation_ratios import AllocationRatios
from kilonova.scenario.model import SimulatedHost
from support.drives import GUEST, find_drive

LATEST = "openstack/latest"


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
