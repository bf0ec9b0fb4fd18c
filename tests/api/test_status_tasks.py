# SPDX-License-Identifier: Apache-2.0
"""``kilonova status tasks`` prints what a control process answers."""

import json
from typing import Any

import pytest

from kilonova.cli.commands import periodic_tasks
from kilonova.cli.main import main
from support.control import Control


class LiveApi:
    """The operator API of a control process."""

    def __init__(self, control: Control) -> None:
        self.client = control.operator

    def get(self, service: str, path: str, version: str | None = None, **query: str) -> Any:
        assert (service, version, query) == ("kilonova", None, {})
        return self.client.get(path).body


@pytest.fixture(autouse=True)
def api(control: Control, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(periodic_tasks, "connect", lambda *_: LiveApi(control))


def test_tasks_are_listed_with_the_process_that_has_them(control: Control, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "tasks"]) == 0
    lines = capsys.readouterr().out.splitlines()
    (line,) = [each for each in lines if each.startswith("guest reports")]
    assert line.split() == ["guest", "reports", "1800", "s", "not", "yet"]
    assert lines[-1] == f"Tasks of control process {control.process.conductor.owner}; other processes have their own."


def test_json_has_what_the_api_answers(control: Control, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "tasks", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["process"] == control.process.conductor.owner
    shown = {each["name"]: each["description"] for each in told["periodic_tasks"]}
    assert shown["retries"] == "Retry broken steps, ask agents for overdue replies, look for awaited events."
