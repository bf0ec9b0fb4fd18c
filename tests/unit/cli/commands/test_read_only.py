# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator
from pathlib import Path

import pytest

from kilonova.cli.main import main
from support.control import Control, new_controls


@pytest.fixture
def control(sqlite_template: Path, tmp_path: Path) -> Iterator[Control]:
    with new_controls(sqlite_template, tmp_path) as start:
        yield start()


def test_the_command_turns_the_switch_of_a_running_cloud(control: Control, capsys: pytest.CaptureFixture[str]) -> None:
    conf = ["--config-file", str(control.folder / "kilonova.conf")]
    assert main(["read-only", "status", *conf]) == 0
    assert main(["read-only", "on", *conf, "--reason", "maintenance"]) == 0
    assert main(["read-only", "status", *conf]) == 1
    assert "maintenance" in capsys.readouterr().out
    assert control.ask().status == 503
    assert main(["read-only", "off", *conf]) == 0
    assert control.ask().status == 202
    control.settle()
    assert main(["read-only", "on", *conf, "--reason", "x" * 256]) == 2
    assert main(["read-only", "on", "--config-file", "/nowhere.conf"]) == 2
