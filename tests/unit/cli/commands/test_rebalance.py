# SPDX-License-Identifier: Apache-2.0
import pytest

from kilonova.cli.commands.rebalance import value_text
from kilonova.cli.main import main


def test_the_value_of_the_objective() -> None:
    assert value_text({"objective": "pack", "before": 3.0, "after": 1.0}) == (
        "hosts with servers: 3 before, 1 after the moves"
    )


@pytest.mark.parametrize(
    "arguments", [[], ["--objective", "best"], ["--objective", "pack", "--os-cloud", "no-such-cloud"]]
)
def test_bad_input_is_one_line(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    assert main(["rebalance", *arguments]) == 2
    shown = capsys.readouterr()
    assert not shown.out
    assert shown.err.count("\n") == 1
