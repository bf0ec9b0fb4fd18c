# SPDX-License-Identifier: Apache-2.0
import io
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest
from rich.console import Console

from kilonova.cli.commands import audit_ports
from kilonova.cli.main import main
from kilonova.errors import Conflict, NotFound

LATE = {
    "port": "p-late",
    "server": "s-1",
    "reason": "deleted",
    "project_id": "p",
    "host": "node1",
    "created_at": "2026-10-05T08:12:41Z",
    "created_by_kilonova": True,
    "removable": True,
    "what": "The server of the port was deleted.",
    "remedy": "Delete it.",
}
LOST = {**LATE, "port": "p-lost", "reason": "missing", "host": None, "created_at": None, "removable": False}


@dataclass
class FakeApi:
    error: Exception | None = None
    strays: list[dict[str, Any]] = field(default_factory=lambda: [LATE, LOST])
    removed: list[str] = field(default_factory=list)

    def get(self, service: str, path: str, version: str | None = None, **query: str) -> Any:
        assert (service, path, version) == ("kilonova", "/stray-ports", None)
        shown = int(query.get("marker", "0"))
        link = {"rel": "next", "href": f"http://cloud/operator/v1/stray-ports?marker={shown + 1}"}
        more = {"stray_ports_links": [link]} if shown + 1 < len(self.strays) else {}
        return {"stray_ports": self.strays[shown : shown + 1], **more}

    def call(self, method: str, service: str, path: str, version: str | None = None, **arguments: Any) -> Any:
        assert (method, service, path, version) == ("POST", "kilonova", "/stray-ports/remove", None)
        self.removed.append(arguments["json"]["remove"]["port"])
        if self.error is not None:
            raise self.error


def test_stray_ports_are_listed_with_age_and_remedy() -> None:
    text = io.StringIO()
    now = datetime(2026, 10, 7, 8, 13, 46, tzinfo=UTC)
    audit_ports.show_ports([LATE, LOST], Console(file=text, width=120), now)
    lines = [line.rstrip() for line in text.getvalue().splitlines()]
    row = next(line for line in lines if "p-late" in line)
    assert row.split() == ["p-late", "s-1", "node1", "2", "days,", "0:01:05", "yes", "deleted"]
    assert "deleted: 1 port" in lines
    assert "The server of the port was deleted. Delete it." in lines


def test_the_exit_code_tells_whether_there_are_any(capsys: pytest.CaptureFixture[str]) -> None:
    api = FakeApi()
    assert audit_ports.report_ports(api, delete=False, as_json=False) == 1
    assert api.removed == []
    assert audit_ports.report_ports(FakeApi(strays=[]), delete=True, as_json=False) == 0
    assert "No stray ports" in capsys.readouterr().out
    assert main(["audit", "ports", "--data", "/nowhere"]) == 2


@pytest.mark.parametrize(
    ("error", "deleted"), [(None, ["p-late"]), (NotFound("gone"), ["p-late"]), (Conflict("needed"), [])]
)
def test_only_removable_ports_are_deleted(
    error: Exception | None, deleted: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    api = FakeApi(error)
    assert audit_ports.report_ports(api, delete=True, as_json=True) == 1
    assert api.removed == ["p-late"]
    printed = json.loads(capsys.readouterr().out)
    assert printed["deleted"] == deleted
    assert [each["port"] for each in printed["stray_ports"]] == [p for p in ("p-late", "p-lost") if p not in deleted]
