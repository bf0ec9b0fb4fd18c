# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from kilonova.cli.cloud.settings import settings_of_cloud
from kilonova.errors import ConfigurationError


def conf(file: Path, url: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"[database]\nconnection = {url}\n")
    return file


def test_configuration_files_win_over_a_data_folder_and_later_ones_over_earlier(tmp_path: Path) -> None:
    first = conf(tmp_path / "first.conf", "sqlite:///first.db")
    second = conf(tmp_path / "second.conf", "sqlite:///second.db")
    settings = settings_of_cloud([str(first), str(second)], tmp_path / "absent")
    assert settings.database.connection == "sqlite:///second.db"


def test_a_folder_without_a_cloud_is_named_with_the_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigurationError, match="--data or --config-file"):
        settings_of_cloud(None, tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    with pytest.raises(ConfigurationError, match=str(tmp_path / "kilonova")):
        settings_of_cloud(None, None)
