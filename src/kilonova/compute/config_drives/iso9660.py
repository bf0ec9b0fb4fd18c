# SPDX-License-Identifier: Apache-2.0
"""ISO 9660 images with Rock Ridge and Joliet file names, which guests mount as a config drive."""

import io
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

#: Volume label by which guests find a config drive.
LABEL = "config-2"


def iso9660_of(files: Mapping[str, bytes]) -> bytes:
    """Return an ISO image with ``files``: path → content."""
    import pycdlib  # noqa: PLC0415 - most hosts make no config drives

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
