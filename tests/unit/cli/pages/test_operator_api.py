# SPDX-License-Identifier: Apache-2.0
"""docs/operator-api.yaml is what the command prints."""

from pathlib import Path

import pytest
import yaml

from kilonova.cli.main import main
from support.operator_document import described

_PAGE = Path(__file__).parents[4] / "docs" / "operator-api.yaml"


def test_the_file_is_what_the_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["docs", "operator-api"]) == 0
    printed = capsys.readouterr().out
    assert _PAGE.read_text(encoding="utf-8") == printed, "run `make docs`"
    assert yaml.safe_load(printed) == described()
