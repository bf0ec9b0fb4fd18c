# SPDX-License-Identifier: Apache-2.0
"""A disk image with files in it, as guests mount it: ISO 9660 with the names of Rock Ridge and Joliet."""

import io
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

#: What guests look for among their disks.
LABEL = "config-2"


def iso9660_of(files: Mapping[str, bytes]) -> bytes:
    """Return an image with the given files: path → content."""
    import pycdlib  # noqa: PLC0415 - most hosts make none

    image: Any = pycdlib.PyCdlib()
    image.new(interchange_level=4, rock_ridge="1.09", joliet=3, vol_ident=LABEL, pub_ident_str="KILONOVA")
    try:
        folders = sorted({parent for path in files for parent in PurePosixPath(path).parents if parent.name})
        for folder in folders:
            image.add_directory(f"/{folder}", rr_name=folder.name, joliet_path=f"/{folder}")
        for path, content in files.items():
            name = PurePosixPath(path).name
            image.add_fp(io.BytesIO(content), len(content), f"/{path};1", rr_name=name, joliet_path=f"/{path}")
        written = io.BytesIO()
        image.write_fp(written)
        return written.getvalue()
    finally:
        image.close()
