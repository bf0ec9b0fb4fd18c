# SPDX-License-Identifier: Apache-2.0
"""`kilonova docs`: bad input."""

import pytest

from kilonova.cli.main import main


def test_an_unknown_form_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["docs", "states", "--format", "pdf"]) == 2
    assert "pdf" in capsys.readouterr().err
