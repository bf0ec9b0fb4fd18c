# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest


@pytest.fixture
def web(tmp_path: Path) -> Path:
    """A folder like that of noVNC, beside a file that is not in it and with a link to that file."""
    folder = tmp_path / "novnc"
    (folder / "core").mkdir(parents=True)
    (folder / "vnc_lite.html").write_text("<html>noVNC</html>")
    (folder / "core" / "rfb.js").write_text("x" * 3_000_000)
    (tmp_path / "secret").write_text("secret")
    (folder / "link").symlink_to(tmp_path / "secret")
    return folder
