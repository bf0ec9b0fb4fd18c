# SPDX-License-Identifier: Apache-2.0
"""File systems of ephemeral disks, by guest operating system and configured default."""

import pytest

from kilonova.compute.virt.libvirt.disks.file_systems import MAKERS, of_ephemeral_disks
from kilonova.model.local_disk import FILE_SYSTEMS


@pytest.mark.parametrize(
    ("os_type", "default_format", "expected"),
    [("linux", "", "ext4"), ("windows", "", "ntfs"), ("", "", "vfat"), ("bsd", "", "vfat"), ("windows", "xfs", "xfs")],
)
def test_the_file_system_of_ephemeral_disks(os_type: str, default_format: str, expected: str) -> None:
    assert of_ephemeral_disks(os_type, default_format) == expected


def test_every_file_system_that_users_may_request_can_be_made() -> None:
    assert set(MAKERS) == set(FILE_SYSTEMS)
