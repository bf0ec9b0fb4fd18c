# SPDX-License-Identifier: Apache-2.0
"""What a host is told when a server is rescued, or moved away from it."""

from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest

from kilonova.messaging.messages import MoveAway, RescueGuest
from support.cell import IMAGE, PASSWORD, RESCUE_IMAGE, Cell, host, new_cell
from support.drives import find_drive
from support.folder_images import FolderImages

T = TypeVar("T")


@pytest.fixture
def cell(sqlite_template: Path, tmp_path: Path) -> Cell:
    images = FolderImages(tmp_path / "images")
    for image in (IMAGE, RESCUE_IMAGE):
        images.add(image.id, b"what disks are made of")
    return new_cell(sqlite_template, tmp_path, host("node1"), host("node2"), images=images)


def booted(cell: Cell, shutdown_timeout: str | None = None, **more: Any) -> str:
    image = IMAGE if shutdown_timeout is None else replace(IMAGE, properties={"os_shutdown_timeout": shutdown_timeout})
    (uuid,) = cell.boot(image=image, **more)
    cell.work_off()
    return uuid


def sent(cell: Cell, kind: type[T]) -> T:
    cell.work_off()
    (found,) = (message for message in cell.bus.sent if isinstance(message, kind))
    return found


@pytest.mark.parametrize(("said", "timeout_s"), [(None, None), ("7", 7.0), ("0", 0.0), ("soon", None)])
def test_a_guest_gets_as_long_to_shut_down_as_its_image_says(
    cell: Cell, said: str | None, timeout_s: float | None
) -> None:
    uuid = booted(cell, said)
    cell.rescue(uuid)
    assert sent(cell, RescueGuest).timeout_s == timeout_s
    cell.unrescue(uuid)
    cell.work_off()
    cell.resize(uuid)
    assert sent(cell, MoveAway).timeout_s == timeout_s


def test_a_host_learns_what_the_rescue_image_asks_for(cell: Cell) -> None:
    cell.rescue(booted(cell))
    assert sent(cell, RescueGuest).image_properties == RESCUE_IMAGE.properties != {}


@pytest.mark.parametrize("config_drive", [True, False])
def test_the_password_is_on_the_drive_of_the_rescue_and_nowhere_else(cell: Cell, *, config_drive: bool) -> None:
    uuid = booted(cell, config_drive=config_drive)
    cell.rescue(uuid)
    order = sent(cell, RescueGuest)
    drive = order.guest.config_drive
    assert (None if drive is None else drive.admin_pass) == (PASSWORD if config_drive else None)
    assert PASSWORD not in repr(order)
    hypervisors = cell.folder / "hypervisors"
    holders = [file for file in hypervisors.rglob("*") if file.is_file() and PASSWORD.encode() in file.read_bytes()]
    assert [file.name for file in holders] == ([f"{uuid}.rescue.iso"] if config_drive else [])
    cell.unrescue(uuid)
    cell.work_off()
    own = find_drive(hypervisors, uuid)
    assert (own is not None) == config_drive
    assert not list(hypervisors.rglob("*.rescue.iso"))
