# SPDX-License-Identifier: Apache-2.0
"""A libvirt host does what every driver does, with guests that really run."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.driver_contract import DriverContract
from support.driver_places import Place
from support.libvirt_node import LibvirtNode
from support.libvirt_place import LibvirtPlace


@pytest.fixture
def place(libvirt_node: LibvirtNode, tmp_path: Path) -> Iterator[Place]:
    made = LibvirtPlace(libvirt_node, tmp_path)
    yield made
    made.clear()


class TestLibvirtDriver(DriverContract):
    """Every test of the contract."""
