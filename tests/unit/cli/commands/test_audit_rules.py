# SPDX-License-Identifier: Apache-2.0
import io
import json
from dataclasses import dataclass
from typing import Any

import pytest
from rich.console import Console

from kilonova.cli.commands import audit
from kilonova.cli.main import main

UNREAD = {
    "of": "flavor",
    "id": "1",
    "name": "f",
    "key": "a:b",
    "value": "[1]",
    "would_be_read_by": [],
    "text": "flavor f asks a:[b]; nothing reads it",
}
EXAMINED = {"flavors": 1, "images": 2, "aggregates": 0}


def report(*found: dict[str, Any], anything: tuple[str, ...] = ()) -> dict[str, Any]:
    return {"clean": not found, "unread": list(found), "may_read_anything": list(anything), "examined": EXAMINED}


@dataclass
class FakeApi:
    report: dict[str, Any]

    def get(self, service: str, path: str, version: str | None = None, **query: str) -> Any:
        assert (service, path, version, query) == ("kilonova", "/rules", None, {})
        return {"rules": self.report}


def shown(told: dict[str, Any]) -> list[str]:
    text = io.StringIO()
    audit.show_unread(told, Console(file=text, width=60))
    return text.getvalue().splitlines()


def test_each_finding_is_one_line_as_it_is_written() -> None:
    assert shown(report(UNREAD)) == [
        "Not read: flavor f asks a:[b]; nothing reads it.",
        "Examined: 1 flavor, 2 images, 0 aggregates.",
        "1 found.",
    ]


def test_nothing_found() -> None:
    assert shown(report())[-1] == "Every property is read by a rule."


def test_rules_that_may_read_anything_are_named() -> None:
    lines = shown(report(anything=("TroveImageFilter",)))
    assert lines[0] == "Unread data cannot be determined: TroveImageFilter may read anything."
    assert len(lines) == 2


@pytest.mark.parametrize(("told", "code"), [(report(UNREAD), 1), (report(), 0), (report(anything=("X",)), 0)])
@pytest.mark.parametrize("as_json", [False, True])
def test_the_exit_code_says_whether_something_was_found(
    told: dict[str, Any], code: int, as_json: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    assert audit.report_unread(FakeApi(told), as_json=as_json) == code
    printed = capsys.readouterr().out
    assert json.loads(printed) == {"rules": told} if as_json else "Examined:" in printed


def test_a_cloud_that_is_not_there_is_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", "rules", "--data", "/nowhere"]) == 2
    assert capsys.readouterr().err.startswith("kilonova: ")
