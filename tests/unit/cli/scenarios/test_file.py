# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from kilonova.cli.scenarios.file import find_scenario
from kilonova.errors import ConfigurationError


def test_a_file_is_taken_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.yaml").write_text("")
    monkeypatch.chdir(tmp_path)
    assert find_scenario("mine.yaml") == tmp_path / "mine.yaml"


def test_an_unknown_name_is_bad_input() -> None:
    with pytest.raises(ConfigurationError, match="no scenario or file has the name 'nowhere'"):
        find_scenario("nowhere")
