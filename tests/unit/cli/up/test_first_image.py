# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from kilonova.cli.up.first_image import has_linux, linux_image
from kilonova.errors import ConfigurationError


def test_the_image_beside_the_environment_is_used(tmp_path: Path) -> None:
    file = tmp_path / ".network-guest" / "guest.qcow2"
    file.parent.mkdir()
    file.touch()
    assert linux_image(tmp_path / ".venv") == file


def test_without_the_image_the_error_names_the_command(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"needs the image .network-guest/guest.*tools/network_guest\.sh$"):
        linux_image(tmp_path / ".venv")


def test_an_empty_folder_has_no_linux(tmp_path: Path) -> None:
    assert not has_linux(tmp_path)
