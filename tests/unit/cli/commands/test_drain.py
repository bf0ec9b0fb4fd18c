# SPDX-License-Identifier: Apache-2.0
import pytest

from kilonova.cli.main import main


@pytest.mark.parametrize(
    "arguments", [["--live", "--cold", "node1"], ["node1", "--per-host", "0"], ["node1", "--os-cloud", "no-such-cloud"]]
)
def test_bad_input_is_one_line(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    assert main(["drain", *arguments]) == 2
    shown = capsys.readouterr()
    assert not shown.out
    assert shown.err.count("\n") == 1
