# SPDX-License-Identifier: Apache-2.0
"""File system of a few megabytes that a test can fill and empty. Mounting it needs root."""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class SmallDisk:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._filler = folder / "filler"

    def fill(self) -> None:
        """Fill the file system completely."""
        with self._filler.open("ab", buffering=0) as file:
            for size in (65_536, 4_096, 1):
                with contextlib.suppress(OSError):
                    while True:
                        file.write(b"x" * size)
        assert os.statvfs(self.folder).f_bavail == 0

    def make_room(self) -> None:
        self._filler.unlink()


@contextmanager
def small_disk(folder: Path, mebibytes: int = 16) -> Iterator[SmallDisk]:
    """Mount a small file system at ``folder`` for the duration of the block."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={mebibytes}m,mode=700", "tmpfs", str(folder)], check=True)
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
