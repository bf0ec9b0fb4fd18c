# SPDX-License-Identifier: Apache-2.0
import re

import pytest

from kilonova.cli.up.start_progress import StartProgress


def test_elsewhere_than_on_a_terminal_each_event_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with StartProgress(terminal=False) as progress:
        progress.start("keystone", "Keystone")
        progress.start("glance", "Glance [image]")
        progress.tick()
        progress.finish("glance", "Glance runs")
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["Keystone …", "Glance [image] …"]
    assert re.fullmatch(r"Glance runs after \d+\.\d s", lines[2])
    assert len(lines) == 3
