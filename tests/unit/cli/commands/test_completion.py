# SPDX-License-Identifier: Apache-2.0
import pytest

from kilonova.cli.main import main


def test_words_are_printed_one_for_each_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion-words", "--", "jobs", ""]) == 0
    assert capsys.readouterr().out.splitlines() == ["cancel", "list", "show"]
    assert main(["completion-words", "--", "capacity", "--nonsense"]) == 0
    assert capsys.readouterr().out == ""
