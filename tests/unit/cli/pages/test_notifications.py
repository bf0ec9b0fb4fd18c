# SPDX-License-Identifier: Apache-2.0
"""The page of notifications."""

from pathlib import Path

import pytest

from kilonova.cli.main import main

_DOCS = Path(__file__).parents[4] / "docs"


def test_the_page_of_notifications_is_what_the_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["docs", "notifications"]) == 0
    assert capsys.readouterr().out == (_DOCS / "notifications.md").read_text(), "make docs writes it anew"
