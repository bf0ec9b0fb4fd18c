# SPDX-License-Identifier: Apache-2.0
from kilonova.compute.config_drives.iso9660 import iso9660_of
from support.drives import Drive


def test_files_of_several_folders_keep_their_names_and_bytes() -> None:
    files = {
        "openstack/latest/meta_data.json": b"{}",
        "openstack/2018-08-27/meta_data.json": b"older",
        "openstack/latest/user_data": bytes(range(256)) * 20,
        "ec2/latest/meta-data.json": b"",
        "top.txt": b"top",
    }
    drive = Drive(iso9660_of(files))
    assert drive.files == files
    assert drive.label == "config-2"
