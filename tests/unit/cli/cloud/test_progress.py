# SPDX-License-Identifier: Apache-2.0
import pytest

from kilonova.cli.cloud.progress import progress_bar


@pytest.mark.parametrize("is_shown", [True, False])
def test_nothing_is_shown_without_a_terminal(capsys: pytest.CaptureFixture[str], *, is_shown: bool) -> None:
    with progress_bar("work", is_shown=is_shown) as show:
        show(0.5, "half")
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "")
