# SPDX-License-Identifier: Apache-2.0
import io
from dataclasses import dataclass, field
from typing import Any

import pytest
from rich.console import Console
from rich.table import Table

from kilonova.cli.cloud.printing import hosts_table
from kilonova.cli.commands import whatif
from kilonova.cli.main import main
from kilonova.errors import InvalidRequest

STEP = {"rule": "ComputeFilter", "reason": "down", "hosts_in": 3, "hosts_out": 2}
RANKED = [
    {"host": "n1", "node": "n1", "score": 1.5, "weights": {"RAMWeigher": 1.5}},
    {"host": "n2", "node": "n2", "score": 1.0, "weights": {"RAMWeigher": 1.0}},
]
PLACED = {"chosen": "n1", "survivors": 2, "forced": False, "steps": [STEP], "ranked": RANKED}
LAST = {"rule": "Placement: VCPU", "reason": "cannot give 9 VCPU", "hosts_in": 3, "hosts_out": 0}
REFUSED = {"chosen": None, "survivors": 0, "forced": False, "steps": [LAST], "ranked": []}
RULES = [
    {"rule": "Placement: VCPU", "reason": "cannot give 9 VCPU", "passed": 0, "failed": 3, "only_hindrance": 2},
    {"rule": "ComputeFilter", "reason": "down", "passed": 2, "failed": 1, "only_hindrance": 0},
]
HOSTS = [
    {"id": "1", "host": "n1", "node": "n1", "passed": True, "reasons": []},
    {"id": "2", "host": "n2", "node": "n2.x", "passed": False, "reasons": [{"rule": "A", "reason": "a [full]"}]},
]
MISS = {
    "changes": [{"text": "ask for 8 VCPU instead of 9"}, {"text": "enable n1"}],
    "host": "n1",
    "node": "n1",
    "fitting": 2,
}
FITS = {
    "fits": True,
    "servers": [PLACED],
    "explained_server": 1,
    "rules": RULES[1:],
    "unread": [],
    "may_read_anything": [],
    "nearest_miss": [],
    "hosts": HOSTS,
    "next_marker": None,
}
FAILS = {**FITS, "fits": False, "servers": [REFUSED], "rules": RULES, "nearest_miss": [MISS]}


def lines(found: dict[str, Any]) -> list[str]:
    text = io.StringIO()
    whatif.show(found, Console(file=text, width=110))
    return [" ".join(line.split()) for line in text.getvalue().splitlines()]


def test_a_request_that_fits_has_a_ranking() -> None:
    shown = lines(FITS)
    assert "ComputeFilter 3 2 1 1 host, down" in shown
    assert "→ n1 1.5000 RAMWeigher +1.5" in shown
    assert shown[-1] == "The server would go to n1, of 2 hosts left."


def test_a_request_that_does_not_fit_has_a_nearest_miss() -> None:
    shown = lines(FAILS)
    assert "Placement: VCPU 3 0 3 2 3 hosts, cannot give 9 VCPU" in shown
    assert "ComputeFilter 1 down" in shown, "rules after the last host are told, too"
    assert "No host is left." in shown
    assert "ask for 8 VCPU instead of 9; enable n1 n1 2" in shown


def test_where_nothing_helps_that_is_said() -> None:
    assert lines({**FAILS, "nearest_miss": []})[-1].startswith("No small change")


def test_servers_before_the_refused_one_are_told() -> None:
    shown = lines({**FAILS, "servers": [PLACED, PLACED, REFUSED], "explained_server": 3})
    assert shown[0] == "Server 3 of the request"
    assert "No host is left for server 3. 2 servers would go to n1, n1." in shown


def test_many_servers_are_counted() -> None:
    assert lines({**FITS, "servers": [PLACED] * 12})[-1].endswith("n1, and 2 more.")


def test_a_forced_host_is_told() -> None:
    assert lines({**FITS, "servers": [{**PLACED, "forced": True}]})[0].startswith("The host is forced")


def test_every_host_with_its_reasons() -> None:
    text = io.StringIO()
    table: Table = hosts_table(HOSTS)
    Console(file=text, width=80).print(table)
    shown = [" ".join(line.split()) for line in text.getvalue().splitlines()]
    assert "n1 fits" in shown
    assert "n2 (n2.x) A: a [full]" in shown


def test_hints_are_read() -> None:
    assert whatif.hints_of(["a=1", "b==2", "a=3"]) == {"a": ["1", "3"], "b": ["=2"]}
    with pytest.raises(InvalidRequest, match="KEY=VALUE"):
        whatif.hints_of(["novalue"])


@dataclass
class FakeApi:
    """Answers with pages of one host each."""

    asked: list[dict[str, str]] = field(default_factory=list)

    def call(self, method: str, service: str, path: str, version: str | None = None, **arguments: Any) -> Any:
        assert (method, service, path) == ("POST", "kilonova", "/explain")
        self.asked.append(dict(arguments["params"]))
        if arguments["params"].get("limit") == "0":
            return {**FITS, "hosts": []}
        last = "marker" in arguments["params"]
        return {**FITS, "hosts": HOSTS[1:] if last else HOSTS[:1], "next_marker": None if last else "1"}


def test_pages_are_put_together() -> None:
    api = FakeApi()
    found = whatif.ask(api, {}, "n", with_hosts=True)
    assert found["hosts"] == HOSTS
    assert api.asked == [{"host": "n"}, {"host": "n", "marker": "1"}]


def test_without_hosts_none_are_asked_for() -> None:
    api = FakeApi()
    assert whatif.ask(api, {}, "", with_hosts=False)["hosts"] == []
    assert api.asked == [{"limit": "0"}]


def test_wrong_input_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["whatif"]) == 2
    assert "--flavor" in capsys.readouterr().err
    assert main(["whatif", "--flavor", "1", "--hint", "x"]) == 2
    assert "KEY=VALUE" in capsys.readouterr().err
