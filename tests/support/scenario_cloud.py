# SPDX-License-Identifier: Apache-2.0
"""A small scenario, and a cloud of two dicts on which it is replayed."""

from dataclasses import dataclass, field
from typing import Any

from kilonova.cli.scenarios.player import Seat
from kilonova.errors import NotFound
from kilonova.scenario.load import scenario_of
from kilonova.scenario.model import Scenario

CONTENT: dict[str, Any] = {
    "name": "small",
    "hosts": [{"name": "node", "count": 2, "vcpus": 4, "memory_mib": 1000, "disk_gib": 10}],
    "aggregates": [{"name": "fast", "zone": "z", "hosts": ["node1"], "metadata": {"ssd": True}}],
    "flavors": [{"name": "big", "id": 6, "vcpus": 2, "extra_specs": {"a:ssd": True}}, {"name": "m1.tiny"}],
    "images": [{"name": "disk", "properties": {"os": "bsd"}}, {"name": "tiny"}],
    "groups": [{"name": "apart", "policy": "anti-affinity", "max_server_per_host": 2, "project": "demo"}],
    "servers": [
        {"name": "web", "flavor": "big", "image": "disk", "count": 2, "expect": ["node1"]},
        {"name": "db", "flavor": "big", "image": "disk", "project": "demo", "group": "apart", "zone": "z"},
    ],
}


def scenario(**changes: Any) -> Scenario:
    return scenario_of({**CONTENT, **changes}, "here")


@dataclass
class FakeCloud:
    """Answers as the APIs do, from what tests put in; notes the commands of the clients."""

    answers: dict[str, Any] = field(default_factory=dict)
    servers: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: {"admin": [], "demo": []})
    commands: list[str] = field(default_factory=list)

    def seats(self) -> dict[str, Seat]:
        return {project: Seat(_Api(self, project), _Client(self, project)) for project in ("admin", "demo")}


@dataclass
class _Api:
    cloud: FakeCloud
    project: str

    def get(self, service: str, path: str, version: str | None = None, **query: str) -> Any:
        servers = self.cloud.servers
        if path == "/servers/detail":
            return {"servers": [*servers["admin"], *servers["demo"]] if query else servers[self.project]}
        empty = {
            "/os-aggregates": "aggregates",
            "/flavors/detail": "flavors",
            "/v2/images": "images",
            "/os-server-groups": "server_groups",
            "/os-services": "services",
        }
        if path in self.cloud.answers:
            return self.cloud.answers[path]
        if path in empty:
            return {empty[path]: []}
        raise NotFound(path)


@dataclass
class _Client:
    cloud: FakeCloud
    project: str

    def run(self, *words: str) -> None:
        self.cloud.commands.append(f"{self.project}: {' '.join(words)}")
        if words[:3] == ("server", "group", "create"):
            self.cloud.answers["/os-server-groups"] = {"server_groups": [{"id": "g1", "name": words[-1]}]}
        elif words[:2] == ("server", "create"):
            count = int(words[words.index("--max") + 1]) if "--max" in words else 1
            names = [words[-1]] if count == 1 else [f"{words[-1]}-{number + 1}" for number in range(count)]
            self.cloud.servers[self.project] += [server(name) for name in names]
        elif words[:2] == ("server", "delete"):
            self.cloud.servers[self.project] = []


def server(name: str, status: str = "ACTIVE", **more: Any) -> dict[str, Any]:
    return {"id": f"id-{name}", "name": name, "status": status, "OS-EXT-SRV-ATTR:host": "node1", **more}
