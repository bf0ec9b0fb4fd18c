# SPDX-License-Identifier: Apache-2.0
import pytest

from support.cli import said_of


@pytest.mark.parametrize(
    "arguments",
    [["begin"], ["end"], ["begin", "node1", "--how", "warm"], ["begin", "node1", "--os-cloud", "no-such-cloud"]],
)
def test_bad_input_is_one_line(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    said_of(["maintenance", *arguments], 2, capsys)
