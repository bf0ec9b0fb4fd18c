# SPDX-License-Identifier: Apache-2.0
"""Reader of the config drives of simulated hosts, as a guest reads them."""

import base64
import io
from pathlib import Path
from typing import Any

import orjson
import pycdlib

from kilonova.model.config_drive import ConfigDrive, PublicKey
from kilonova.model.guest_devices import GuestCell, GuestDevices
from kilonova.model.instance import GuestSpec

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


class Drive:
    """Config drive with its ``label``. ``files``: path → content."""

    def __init__(self, data: bytes) -> None:
        # volume identifier at the offset defined by ISO 9660, read without a library
        self.label = data[32808:32840].decode().rstrip()
        image: Any = pycdlib.PyCdlib()
        image.open_fp(io.BytesIO(data))
        self.files: dict[str, bytes] = {}
        for folder, _, names in image.walk(joliet_path="/"):
            for name in names:
                path, content = f"{folder.rstrip('/')}/{name}", io.BytesIO()
                image.get_file_from_iso_fp(content, joliet_path=path)
                self.files[path.removeprefix("/")] = content.getvalue()
        image.close()

    def json(self, path: str) -> Any:
        return orjson.loads(self.files[path])


def find_drive(hypervisors: Path, uuid: str) -> Drive | None:
    """Return the config drive of a server on any host, or None if there is none."""
    found = list(hypervisors.glob(f"config_drives/*/{uuid}.iso"))
    assert len(found) <= 1, found
    return Drive(found[0].read_bytes()) if found else None
