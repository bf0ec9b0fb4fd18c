# SPDX-License-Identifier: Apache-2.0
"""The commands that `kilonova up` suggests."""

from pathlib import Path

import pytest

from kilonova.cli.up import cloud_files
from kilonova.cli.up.announcement import Announcement
from kilonova.cli.up.cloud_files import Cloud
from kilonova.cli.wiring.addresses import Address


@pytest.fixture
def cloud(tmp_path: Path) -> Cloud:
    folder = tmp_path / "data"
    cloud_files.make_folder(folder)
    return Cloud(folder, Address("127.0.0.1", 1), Address("127.0.0.1", 2), Address("127.0.0.1", 3), hosts=2)


@pytest.mark.parametrize("real_guests", [True, False])
def test_what_to_type_next_shows_the_console_of_a_real_guest(cloud: Cloud, real_guests: bool) -> None:
    said = Announcement(
        cloud, 1.0, companions=True, unlimited=True, real_guests=real_guests, agents=False, data=""
    ).text()
    assert ("openstack console log show first\n" in said) is real_guests
