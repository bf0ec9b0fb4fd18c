# SPDX-License-Identifier: Apache-2.0
from dataclasses import dataclass, field
from typing import Any

import pytest

from kilonova.cli.commands import servers
from kilonova.cli.main import main
from kilonova.errors import Conflict, KilonovaError, NotFound

UUID, GROUP = "5b674f73-0000-4000-8000-000000000001", "8a5b6c1c-0000-4000-8000-000000000000"


@dataclass
class FakeApi:
    """Counts seven servers, knows one by its name, and keeps what is asked; or refuses."""

    refusal: KilonovaError | None = None
    asked: list[Any] = field(default_factory=list)

    def get(self, service: str, path: str, version: str | None = None, **query: str) -> Any:
        if service == "compute":
            return {"servers": [{"id": UUID, "name": "web"}]}
        self.asked.append((service, path, query))
        return {"count": 7}

    def call(self, method: str, service: str, path: str, version: str | None = None, **arguments: Any) -> Any:
        self.asked.append((method, service, path, arguments))
        if self.refusal is not None:
            raise self.refusal
        return arguments["json"] if "hints" in arguments["json"] else None


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> FakeApi:
    fake = FakeApi()
    monkeypatch.setattr(servers, "connect", lambda *_: fake)
    return fake


def test_servers_of_all_projects_are_counted(api: FakeApi, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["servers", "count", "status=ERROR", "changes-since=2026-01-01"]) == 0
    query = {"all_tenants": "1", "status": "ERROR", "changes-since": "2026-01-01"}
    assert api.asked == [("kilonova", "/servers/count", query)]
    assert capsys.readouterr().out == "7\n"


def test_hints_are_set(api: FakeApi, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["servers", "set-hints", "web", "same_host=a", "same_host=b", 'query=["=", 1, 1]']) == 0
    hints = {"same_host": ["a", "b"], "query": '["=", 1, 1]'}
    assert api.asked == [("PUT", "kilonova", f"/servers/{UUID}/hints", {"json": {"hints": hints}})]
    assert "same_host=['a', 'b']" in capsys.readouterr().out


def test_a_server_leaves_its_group(api: FakeApi, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["servers", "leave-group", UUID, GROUP]) == 0
    body = {"json": {"leave_group": {"server_group": GROUP}}}
    assert api.asked == [("POST", "kilonova", f"/servers/{UUID}/leave-group", body)]
    assert "is no longer a member" in capsys.readouterr().out


@pytest.mark.parametrize("refusal", [NotFound("There is none."), Conflict("An operation is under way.")])
def test_a_refusal_is_one_line(api: FakeApi, capsys: pytest.CaptureFixture[str], refusal: KilonovaError) -> None:
    api.refusal = refusal
    assert main(["servers", "leave-group", UUID, GROUP]) == 2
    assert capsys.readouterr().err == f"kilonova: {refusal.message}\n"


def test_what_is_no_pair_is_named(api: FakeApi, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["servers", "count", "ERROR"]) == 2
    assert capsys.readouterr().err == "kilonova: 'ERROR' is not NAME=VALUE\n"
