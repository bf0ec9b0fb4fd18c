# SPDX-License-Identifier: Apache-2.0
import io
import json
from dataclasses import dataclass
from typing import Any

import pytest
from rich.console import Console

from kilonova.cli.commands import audit
from kilonova.cli.main import main
from kilonova.errors import Forbidden

EXAMINED = {"projects": ["*", "p"], "flavors": 2, "images": 3, "servers": 4, "combinations": 5}
POOL = {
    "rule": "image.trove",
    "aggregates": ["Trove"],
    "hosts": ["compute3"],
    "may_enter": [
        {"flavors": ["m1.tiny", "db"], "images": ["tagged"], "projects": ["*", "p"]},
        {"flavors": ["own"], "images": ["tagged"], "projects": ["p"]},
        {"flavors": ["other"], "images": ["tagged"], "projects": ["*"]},
    ],
}
SERVER = {"id": "uuid-1", "name": "s", "host": "compute3", "project_id": "p", "flavor": "db", "image": "plain"}
LEAK = {
    "kind": "stranger",
    "severity": "leak",
    "what": "1 server runs there.",
    "remedy": "Move it.",
    "rules": ["image.trove"],
    "aggregates": ["Trove"],
    "hosts": ["compute3"],
    "servers": [SERVER],
    "who": [],
}
NOTE = {**LEAK, "kind": "unprotected property", "severity": "note", "servers": [], "who": POOL["may_enter"][1:2]}


def report(*findings: dict[str, Any], pools: tuple[dict[str, Any], ...] = (POOL,)) -> dict[str, Any]:
    clean = all(finding["severity"] == "note" for finding in findings)
    return {
        "clean": clean,
        "pools": list(pools),
        "open_hosts": ["compute1", "compute2"],
        "findings": list(findings),
        "examined": EXAMINED,
    }


@dataclass
class FakeApi:
    """Answers with one report, or refuses."""

    report: dict[str, Any] | None

    def get(self, service: str, path: str, version: str | None = None, **query: str) -> Any:
        assert (service, path, version, query) == ("kilonova", "/isolation", None, {})
        if self.report is None:
            raise Forbidden("no")
        return {"isolation": self.report}


def shown(told: dict[str, Any]) -> list[str]:
    text = io.StringIO()
    audit.show(told, Console(file=text, width=160))
    return [" ".join(line.split()) for line in text.getvalue().splitlines()]


def test_pools_and_who_may_enter_are_a_table() -> None:
    lines = shown(report())
    assert "Trove image.trove compute3 m1.tiny, db with tagged, any project" in lines
    assert "own with tagged, project p" in lines
    assert "other with tagged, a project that no rule names" in lines
    assert "compute1, compute2 all other servers" in lines
    assert lines[-2:] == [
        (
            "Examined: 2 flavors, 3 images and an image without properties, which form 5 kinds of servers; also"
            " 4 running servers."
        ),
        "Nothing leaks.",
    ]


def test_findings_name_servers_hosts_and_what_to_do() -> None:
    lines = shown(report(LEAK, NOTE))
    at = lines.index("leak: stranger")
    assert lines[at + 1 : at + 6] == [
        "1 server runs there.",
        "rule: image.trove",
        "1 host: compute3",
        "server s (uuid-1) on compute3",
        "Move it.",
    ]
    assert "note: unprotected property" in lines
    assert "who: own with tagged, project p" in lines
    assert lines[-1] == "1 found."


def test_many_servers_are_counted_and_json_has_them_all(capsys: pytest.CaptureFixture[str]) -> None:
    many = report({**LEAK, "servers": [{**SERVER, "name": f"s{number}"} for number in range(13)]})
    lines = shown(many)
    assert "server s9 (uuid-1) on compute3" in lines
    assert "and 3 more; --json lists all" in lines
    assert audit.report_isolation(FakeApi(many), as_json=True) == 1
    assert json.loads(capsys.readouterr().out) == {"isolation": many}


@pytest.mark.parametrize(
    ("findings", "code"), [((), 0), ((NOTE,), 0), ((LEAK,), 1), (({**LEAK, "severity": "fault"},), 1)]
)
@pytest.mark.parametrize("as_json", [False, True])
def test_the_exit_code_says_whether_something_was_found(
    findings: tuple[dict[str, Any], ...], code: int, as_json: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    assert audit.report_isolation(FakeApi(report(*findings)), as_json=as_json) == code
    assert capsys.readouterr().out


def test_a_cloud_without_rules_has_no_table() -> None:
    assert shown(report(pools=()))[0].startswith("Examined:")


def test_a_refusal_is_passed_on() -> None:
    with pytest.raises(Forbidden):
        audit.report_isolation(FakeApi(None), as_json=False)


@pytest.mark.parametrize("words", [("isolation", "--nonsense"), ("nonsense",), ("isolation", "--data", "/nowhere")])
def test_wrong_usage_is_2(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", *words]) == 2
    assert capsys.readouterr().err.startswith("kilonova: ")
