# SPDX-License-Identifier: Apache-2.0
"""Reader of the config drives of simulated hosts, as a guest reads them."""

import io
from pathlib import Path
from typing import Any

import orjson
import pycdlib


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
