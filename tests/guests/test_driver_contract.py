# SPDX-License-Identifier: Apache-2.0
"""Driver contract on a libvirt host, with real guests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kilonova.model.image_data import ImageData
from support.driver_contracts.whole import DriverContract
from support.driver_places import Monitor, Place
from support.libvirt_node import LibvirtNode
from support.libvirt_place import LibvirtPlace


@pytest.fixture
def place(libvirt_node: LibvirtNode, tmp_path: Path) -> Iterator[Place]:
    made = LibvirtPlace(libvirt_node, tmp_path)
    yield made
    made.clear()


class TestLibvirtDriver(DriverContract):
    """All contract tests on the libvirt driver."""


@pytest.mark.parametrize("before", ["stop", "pause"])
def test_copies_for_images_are_where_operators_want_them(
    libvirt_node: LibvirtNode, tmp_path: Path, before: str
) -> None:
    copies = tmp_path / "large" / "copies"
    place = LibvirtPlace(libvirt_node, tmp_path, snapshots_directory=copies)
    guest = place.made()
    getattr(place.driver, before)(guest.uuid)
    place.driver.snapshot(guest.uuid, "new", place.image, Monitor())
    assert [file.name for file in copies.iterdir()] == [f"{guest.uuid}.new.qcow2"]
    assert not (tmp_path / "snapshots").exists()
    place.driver.upload_snapshot(guest.uuid, ImageData("new", url="http://control"), Monitor())
    place.driver.destroy(guest.uuid)
    assert not list(copies.iterdir())
    place.clear()
