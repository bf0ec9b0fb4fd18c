# SPDX-License-Identifier: Apache-2.0
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kilonova.compute.files.folders import claim, let_through, make_folder
from kilonova.errors import ConfigurationError


@pytest.fixture
def _private_umask() -> Iterator[None]:
    before = os.umask(0o077)
    yield
    os.umask(before)


def mode(folder: Path) -> int:
    return folder.stat().st_mode & 0o777


@pytest.mark.usefixtures("_private_umask")
def test_new_folders_can_be_traversed_and_not_listed_whatever_the_umask(tmp_path: Path) -> None:
    make_folder(tmp_path / "instances" / "a")
    make_folder(tmp_path / "instances" / "a")
    assert mode(tmp_path / "instances") == mode(tmp_path / "instances" / "a") == 0o711


def test_a_present_folder_keeps_its_mode_until_it_is_opened_for_traversal(tmp_path: Path) -> None:
    folder = tmp_path / "instances"
    folder.mkdir(mode=0o700)
    make_folder(folder)
    assert mode(folder) == 0o700
    let_through(folder)
    assert mode(folder) == 0o711
    let_through(tmp_path / "absent")  # it belongs to another user, or is gone


def test_a_folder_belongs_to_the_first_host_that_claims_it(tmp_path: Path) -> None:
    claim(tmp_path, "node1")
    claim(tmp_path, "node1")
    with pytest.raises(ConfigurationError, match="holds the guests of host node1, not of node2"):
        claim(tmp_path, "node2")
    assert (tmp_path / "host").read_text() == "node1\n"
    with pytest.raises(ConfigurationError, match="cannot be written"):
        claim(tmp_path / "absent", "node1")
