# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from kilonova.bundled_services.short_way import make_short_way, short_way
from kilonova.errors import ConfigurationError


@pytest.mark.parametrize("path", ["/srv/" + "a" * 80, "/srv/" + "ä" * 40, "/srv/two words"])
def test_a_folder_with_a_long_path_is_reached_by_a_link_that_stays_the_same(path: str) -> None:
    short = short_way(Path(path), 40)
    assert len(short.encode()) + 40 <= 107
    assert " " not in short
    assert short == short_way(Path(path), 40)
    assert short != short_way(Path(f"{path}b"), 40)


def test_a_short_path_is_taken_as_it_is() -> None:
    assert short_way(Path("/srv/cloud"), 90) == "/srv/cloud"


def test_links_to_folders_that_are_gone_are_removed_and_others_are_not(tmp_path: Path) -> None:
    folder, lives = tmp_path / "folder", tmp_path / "lives"
    for each in (folder, lives):
        each.mkdir()
    (tmp_path / "kn-gone").symlink_to(tmp_path / "nowhere")
    (tmp_path / "kn-lives").symlink_to(lives)
    (tmp_path / "other").symlink_to(tmp_path / "nowhere")
    for _ in range(2):
        make_short_way(tmp_path / "kn-own", folder)
    assert (tmp_path / "kn-own").readlink() == folder
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_symlink()) == ["kn-lives", "kn-own", "other"]


def test_what_somebody_else_has_put_there_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "kn-own").symlink_to(tmp_path)
    with pytest.raises(
        ConfigurationError, match="exists already for another user or folder; choose a folder with a shorter path"
    ):
        make_short_way(tmp_path / "kn-own", tmp_path / "folder")
