# SPDX-License-Identifier: Apache-2.0
import io
from typing import Any

from rich.console import Console

from kilonova.cli.commands.agents_of_hosts import list_agents, show_hosts

HOST: dict[str, Any] = {
    "host": "node1",
    "state": "up",
    "status": "enabled",
    "agent": "rack1",
    "machine": "m1",
    "release": "0.1.0",
    "message_version": 7,
    "last_seen_at": "2026-05-01T12:00:00.123456",
    "hypervisors": [{"lacks": ["pause", "live-migrate"]}, {"lacks": ["pause"]}],
}
INSIDE = {**HOST, "host": "node2", "state": "down", "agent": None, "machine": None, "release": None,
          "message_version": None, "last_seen_at": None, "hypervisors": []}  # fmt: skip


def printed(answer: dict[str, Any]) -> list[str]:
    text = io.StringIO()
    show_hosts(answer, Console(file=text, width=200))
    return text.getvalue().splitlines()


def test_each_lacking_ability_is_named_once_and_times_have_no_fractions() -> None:
    lines = printed({"hosts": [HOST, INSIDE], "hosts_links": [{"rel": "next"}]})
    assert lines[2].split()[-3:] == ["2026-05-01T12:00:00", "live-migrate,", "pause"]
    assert "in a control process" in lines[3]
    assert "never" in lines[3]
    assert lines[-1].endswith("--marker node2")


def test_a_refused_agent_is_explained_once() -> None:
    refused = {**HOST, "refused": "Agent rack1 is too old."}
    lines = printed({"hosts": [refused, {**refused, "host": "node3"}, INSIDE]})
    assert lines.count("Agent rack1 is too old.") == 1


def test_a_cloud_without_hosts_has_no_table() -> None:
    assert printed({"hosts": []}) == ["There are no hosts."]


def test_filters_that_were_not_given_are_not_sent() -> None:
    asked: list[dict[str, str]] = []

    class Api:
        def get(self, _service: str, _path: str, _version: str | None = None, **query: str) -> Any:
            asked.append(query)
            return {"hosts": []}

    list_agents(Api(), {"host": "node1", "marker": "", "limit": ""}, as_json=True)
    assert asked == [{"host": "node1"}]
