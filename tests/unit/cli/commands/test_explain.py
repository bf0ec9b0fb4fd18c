# SPDX-License-Identifier: Apache-2.0
import io
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from kilonova.cli.commands import explain
from kilonova.cli.main import main
from kilonova.errors import InvalidRequest, NotFound
from support.cli import clouds_file

STEPS = [
    {"rule": "ComputeFilter", "reason": "down", "hosts_in": 3, "hosts_out": 3, "removed": []},
    {
        "rule": "SsdFilter",
        "reason": "no disk of that kind",
        "hosts_in": 3,
        "hosts_out": 1,
        "removed": [{"host": "n2", "node": "n2"}, {"host": "n3", "node": "n3.example"}],
    },
]
PLACED = {
    "request_id": "req-1",
    "server_id": "uuid-1",
    "created_at": "2026-01-02T03:04:05.000000Z",
    "chosen": "n1",
    "survivors": 1,
    "forced": False,
    "steps": STEPS,
    "unread": [],
    "may_read_anything": [],
    "ranked": [{"host": "n1", "node": "n1", "score": 1.5, "weights": {"RAMWeigher": 1.5, "DiskWeigher": 0.0}}],
}
LAST = {"rule": "Last", "reason": "full", "hosts_in": 1, "hosts_out": 0, "removed": [{"host": "n1", "node": "n1"}]}
REFUSED = {**PLACED, "chosen": None, "survivors": 0, "steps": [*STEPS, LAST], "ranked": []}


@dataclass
class FakeApi:
    """Answers from two dicts: decisions by name, servers by name."""

    decisions: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    servers: list[dict[str, str]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def get(self, service: str, path: str, version: str | None = None, **query: str) -> Any:
        self.asked.append(path)
        if service == "kilonova":
            name = path.removeprefix("/decisions/")
            if name not in self.decisions:
                raise NotFound("none")
            return {"decisions": self.decisions[name]}
        assert (service, path, query["all_tenants"]) == ("compute", "/servers", "1")
        return {"servers": self.servers}


def shown(*decisions: dict[str, Any]) -> str:
    text = io.StringIO()
    explain.show(decisions, Console(file=text, width=100))
    return text.getvalue()


def test_a_placed_server_is_told_with_reasons_and_weights() -> None:
    lines = [" ".join(line.split()) for line in shown(PLACED).splitlines()]
    assert "Server uuid-1" in lines
    assert "request req-1, decided 2026-01-02T03:04:05.000000Z" in lines
    assert "ComputeFilter 3 3" in lines
    assert "SsdFilter 3 1 2 hosts, no disk of that kind: n2, n3 (n3.example)" in lines
    assert "→ n1 1.5000 RAMWeigher +1.5" in lines
    assert lines[-1] == "Chosen: n1, of 1 host left."


def test_a_refused_server_is_told_by_whom() -> None:
    lines = [" ".join(line.split()) for line in shown(REFUSED).splitlines()]
    assert "Last 1 0 1 host, full: n1" in lines
    assert lines[-1] == "No host was left."


def test_every_removed_host_is_named_however_many() -> None:
    removed = [{"host": f"host{number:03}", "node": f"host{number:03}"} for number in range(200)]
    many = {**STEPS[1], "hosts_in": 201, "removed": removed}
    text = shown({**PLACED, "steps": [many]})
    assert all(f"host{number:03}" in text for number in range(200))


def test_attempts_are_numbered_by_server() -> None:
    text = shown(PLACED, {**PLACED, "server_id": "uuid-2"}, PLACED)
    assert text.count("attempt 2") == 1
    assert "Server uuid-1, attempt 2" in text


def test_the_newest_decision_comes_first_and_says_what_kind_of_move_it_was() -> None:
    later = {**PLACED, "created_at": "2026-01-02T03:04:06.000000Z"}
    moved = {**PLACED, "request_id": "req-2", "created_at": "2026-01-03T00:00:00.000000Z", "move": "resize"}
    lines = shown(moved, later, PLACED).splitlines()
    titles = [line for line in lines if line.startswith("Server")]
    assert titles == ["Server uuid-1, resize", "Server uuid-1, attempt 2", "Server uuid-1"]


def test_a_forced_host_is_said_to_be_forced() -> None:
    assert "no filter ran" in shown({**PLACED, "forced": True})


def test_request_ids_and_server_ids_are_asked_for_at_once() -> None:
    api = FakeApi({"req-1": [PLACED]})
    assert explain.find_decisions(api, "req-1") == [PLACED]
    assert api.asked == ["/decisions/req-1"]


def test_a_server_is_found_by_its_name() -> None:
    api = FakeApi({"uuid-1": [PLACED]}, [{"id": "uuid-1", "name": "web 1"}, {"id": "uuid-2", "name": "Web 1"}])
    assert explain.find_decisions(api, "web 1") == [PLACED]


@pytest.mark.parametrize(
    ("name", "servers", "message"),
    [
        ("x", [], "no server or request has the name x"),
        ("../x?a=b", [], "no server or request has the name"),
        ("x", [{"id": "1", "name": "x"}, {"id": "2", "name": "x"}], "2 servers have the name x; give an id: 1, 2"),
        ("x", [{"id": "1", "name": "x"}], r"no decision is stored for server x \(1\)"),
        ("req-00000000-0000-0000-0000-000000000000", [], "no decision is stored for request req-0"),
    ],
)
def test_what_cannot_be_explained_is_bad_input(name: str, servers: list[dict[str, str]], message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        explain.find_decisions(FakeApi(servers=servers), name)


def test_an_unreachable_cloud_is_one_line_and_code_1(nowhere: Path, capsys: pytest.CaptureFixture[str]) -> None:
    clouds_file(nowhere / "data")
    assert main(["explain", "x", "--data", str(nowhere / "data")]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "kilonova: the cloud cannot be reached: no valid answer from http://127.0.0.1:9/identity\n"


@pytest.mark.parametrize("arguments", [["--os-cloud", "other"], ["--data", "missing"], ["--nonsense"], []])
def test_bad_input_is_one_line_and_code_2(
    nowhere: Path, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    assert main(["explain", "x", *arguments] if arguments else ["explain"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("kilonova: ")
    assert err.count("\n") == 1


HOSTS = [
    {"host": "n1", "node": "n1", "reasons": []},
    {"host": "n2", "node": "n2", "reasons": [{"rule": "A", "reason": "a"}, {"rule": "B", "reason": "b"}]},
]
SAME = {"possible": True, "identical": True, "differences": [], "notes": []}


def test_a_replay_says_whether_it_is_the_same() -> None:
    assert "The repeated decision is identical." in shown({**PLACED, "replay": SAME})
    other = {**SAME, "identical": False, "differences": ["chosen: n1, now n2"], "notes": ["Options were changed."]}
    text = shown({**PLACED, "replay": other})
    assert "chosen: n1, now n2" in text
    assert "Note: Options were changed." in text
    assert "too old" in shown({**REFUSED, "replay": {"possible": False, "reason": "It is too old."}})


def test_every_reason_of_every_host_of_a_decision() -> None:
    replay = {**SAME, "hosts": HOSTS, "matching_hosts": 5}
    lines = [" ".join(line.split()) for line in shown({**PLACED, "replay": replay}).splitlines()]
    assert "n1 fits" in lines
    assert "n2 A: a; B: b" in lines
    assert lines[-1] == "and 3 more hosts: select one with --host"


def test_what_is_asked_of_the_api() -> None:
    assert explain.query_of(replay=False, hosts=False, host="") == {}
    assert explain.query_of(replay=True, hosts=False, host="") == {"replay": "true"}
    assert explain.query_of(replay=False, hosts=True, host="") == {"hosts": "true", "limit": "1000"}
    assert explain.query_of(replay=False, hosts=False, host="n1")["host"] == "n1"
