# SPDX-License-Identifier: Apache-2.0
from dataclasses import dataclass, field
from typing import Any

import pytest

from kilonova.cli.commands import hosts, strays
from kilonova.cli.main import main
from kilonova.errors import Conflict, KilonovaError, NotFound

GUEST = "5b674f73-0000-4000-8000-000000000001"
STRAY = {
    "id": 7,
    "host": "node3",
    "guest": GUEST,
    "reason": "elsewhere",
    "power_state": "running",
    "recorded_host": "node1",
    "since": "2026-01-01T00:00:00Z",
    "what": "Its server is recorded on host node1, and no record says that it left this host.",
    "remedy": "Check which of the two guests is in use.",
}
MISSING = {**STRAY, "id": 8, "host": "node1", "reason": "missing", "power_state": None, "remedy": "Delete the server."}


@dataclass
class FakeApi:
    """Answers with two strays, or refuses."""

    refusal: KilonovaError | None = None
    asked_host: bool = True
    asked: list[Any] = field(default_factory=list)

    def get(self, service: str, path: str, version: str | None = None, **query: str) -> Any:
        self.asked.append((service, version, path, query))
        return {"strays": [STRAY, MISSING], "strays_links": [{"rel": "next", "href": "…"}]}

    def call(self, method: str, service: str, path: str, version: str | None = None, **arguments: Any) -> Any:
        self.asked.append((method, service, version, path, arguments))
        if self.refusal is not None:
            raise self.refusal
        return {"removal": {"host": "node3", "guest": GUEST, "host_was_asked": self.asked_host}}


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> FakeApi:
    fake = FakeApi()
    for module in (hosts, strays):
        monkeypatch.setattr(module, "connect", lambda *_: fake)
    return fake


def test_strays_are_shown_with_what_may_be_done(api: FakeApi, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["hosts", "--strays", "--host", "node3", "--limit", "5", "--marker", "3"]) == 0
    assert api.asked == [("kilonova", None, "/strays", {"host": "node3", "limit": "5", "marker": "3"})]
    out = capsys.readouterr().out
    assert "elsewhere (node1)" in out
    assert "no guest" in out
    assert "Check which of the two guests is in use." in out
    assert "Delete the server." in out
    assert "kilonova hosts remove-guest HOST GUEST" in out
    assert "--marker 8" in out


@pytest.mark.parametrize(("asked", "said"), [(True, "removes guest"), (False, "is not reachable")])
def test_a_guest_is_removed(api: FakeApi, capsys: pytest.CaptureFixture[str], *, asked: bool, said: str) -> None:
    api.asked_host = asked
    assert main(["hosts", "remove-guest", "node3", GUEST]) == 0
    body = {"json": {"remove": {"host": "node3", "guest": GUEST}}}
    assert api.asked == [("POST", "kilonova", None, "/strays/remove", body)]
    assert said in capsys.readouterr().out


@pytest.mark.parametrize("refusal", [NotFound("Host node9 could not be found."), Conflict("It is recorded there.")])
def test_a_refusal_is_one_line(api: FakeApi, capsys: pytest.CaptureFixture[str], refusal: KilonovaError) -> None:
    api.refusal = refusal
    assert main(["hosts", "remove-guest", "node9", GUEST]) == 2
    assert capsys.readouterr().err == f"kilonova: {refusal.message}\n"
