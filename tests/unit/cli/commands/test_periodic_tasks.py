# SPDX-License-Identifier: Apache-2.0
import pytest

from kilonova.cli.commands import periodic_tasks


def test_errors_and_runs_under_way_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    task = {"name": "purge", "interval_s": 3600.0, "last_start": "2026-01-01T00:00:00.000Z", "last_duration_s": 1.5}
    failed = {**task, "running": False, "last_error": "The database cannot be reached."}
    running = {**task, "name": "silence", "running": True, "last_error": None}
    well = {**task, "name": "routes", "running": False, "last_error": None}
    health = {"process": "p1", "periodic_tasks": [failed, running, well]}
    periodic_tasks.show_tasks(health, periodic_tasks.output_console())
    lines = [each.rstrip() for each in capsys.readouterr().out.splitlines()]
    assert lines[2].split(maxsplit=7) == [
        *("purge", "3600", "s", "2026-01-01", "00:00:00", "1.500", "s", "The database cannot be reached.")
    ]
    assert lines[3].endswith("running")
    assert lines[4].endswith("ok")
