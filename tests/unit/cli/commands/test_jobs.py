# SPDX-License-Identifier: Apache-2.0
import pytest

from kilonova.cli.main import main
from support.cli import said_of


@pytest.mark.parametrize(
    "arguments", [["jobs", "show"], ["jobs", "nonsense"], ["jobs", "list", "--os-cloud", "no-such-cloud"]]
)
def test_bad_input_is_one_line(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    said_of(arguments, 2, capsys)


def test_the_process_of_a_job_is_no_command_for_users(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--help"])
    assert "job-worker" not in capsys.readouterr().out
