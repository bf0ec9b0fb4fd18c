# SPDX-License-Identifier: Apache-2.0
"""The default data folder."""

from pathlib import Path

import pytest

from kilonova.cli.up.data_folder import default_folder


def test_the_data_folder_follows_xdg(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    assert default_folder() == Path("/data/kilonova")
    monkeypatch.setenv("XDG_DATA_HOME", "")
    monkeypatch.setenv("HOME", "/home/someone")
    assert default_folder() == Path("/home/someone/.local/share/kilonova")
