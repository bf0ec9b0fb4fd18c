# SPDX-License-Identifier: Apache-2.0
import os
import stat
from pathlib import Path

from kilonova.bundled_services.private_file import write_private


def test_a_private_file_is_its_owners_alone_whatever_it_replaces(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text("old")
    path.chmod(0o644)
    (tmp_path / "secret.part").write_text("left by a killed process")
    before = os.umask(0)
    try:
        write_private(path, "new")
    finally:
        os.umask(before)
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]
