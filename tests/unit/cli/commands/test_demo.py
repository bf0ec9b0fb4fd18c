# SPDX-License-Identifier: Apache-2.0
"""Replaying a scenario against a cloud that is two dicts: what is looked at, and which commands are run."""

import json
from dataclasses import dataclass, field
from typing import Any

import pytest
from rich.console import Console

from kilonova.cli.main import main
from kilonova.cli.scenarios.cloud_match import differences
from kilonova.cli.scenarios.player import ScenarioPlayer, Seat
from kilonova.cli.scenarios.settings import settings_of
from kilonova.config.configuration import public_options
from kilonova.errors import InvalidRequest, NotFound
from kilonova.scenario.load import scenario_of
from kilonova.scenario.model import Scenario
from kilonova.scenario.outcome import Landing

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


def test_what_is_missing_is_made_with_the_stock_clients_commands() -> None:
    cloud = FakeCloud()
    ScenarioPlayer(scenario(), cloud.seats()).prepare()
    image = next(command for command in cloud.commands if "image create" in command and command.endswith(" disk"))
    assert "--public --disk-format raw --container-format bare --file /" in image
    assert image.endswith("--property os=bsd disk")
    assert [command for command in cloud.commands if "image" not in command] == [
        "admin: aggregate create --zone z fast",
        "admin: aggregate set --property ssd=true fast",
        "admin: aggregate add host fast node1",
        "admin: flavor create --id 6 --ram 512 --disk 1 --vcpus 2 big",
        "admin: flavor set --property a:ssd=true big",
        "admin: flavor create --ram 512 --disk 1 --vcpus 1 m1.tiny",
        "demo: server group create --policy anti-affinity --rule max_server_per_host=2 apart",
    ]


def test_what_is_there_is_left_and_completed() -> None:
    big = {"name": "big", "ram": 512, "disk": 1, "vcpus": 2, "extra_specs": {"a:ssd": "true"}}
    cloud = FakeCloud(
        {
            "/os-aggregates": {"aggregates": [{"name": "fast", "hosts": ["node1"], "metadata": {"ssd": "false"}}]},
            "/flavors/detail": {"flavors": [big, {**big, "name": "m1.tiny", "vcpus": 1, "extra_specs": {}}]},
            "/v2/images": {"images": [{"name": "disk", "os": "bsd"}, {"name": "tiny"}]},
            "/os-server-groups": {"server_groups": [{"id": "g1", "name": "apart"}]},
        }
    )
    ScenarioPlayer(scenario(), cloud.seats()).prepare()
    assert cloud.commands == ["admin: aggregate set --property ssd=true fast"]


def test_a_flavor_of_another_size_is_refused() -> None:
    other = {"name": "big", "ram": 1, "disk": 1, "vcpus": 2, "extra_specs": {}}
    cloud = FakeCloud({"/flavors/detail": {"flavors": [other]}})
    with pytest.raises(InvalidRequest, match="flavor big exists with another size"):
        ScenarioPlayer(scenario(), cloud.seats()).prepare()


def test_hosts_out_of_service_are_disabled_with_their_reason() -> None:
    services = [{"host": "old", "status": "enabled"}, {"host": "new", "status": "enabled"}]
    hosts = [{"name": "old", "disabled": "too old"}, {"name": "new"}]
    cloud = FakeCloud({"/os-services": {"services": services}})
    ScenarioPlayer(scenario_of({"name": "n", "hosts": hosts}, "here"), cloud.seats()).prepare()
    assert cloud.commands == ["admin: compute service set --disable --disable-reason too old old nova-compute"]


def test_servers_are_asked_for_once() -> None:
    cloud = FakeCloud({"/os-server-groups": {"server_groups": [{"id": "g1", "name": "apart"}]}})
    player = ScenarioPlayer(scenario(), cloud.seats())
    player.create_servers()
    player.create_servers()
    assert cloud.commands == [
        "admin: server create --flavor big --image disk --min 2 --max 2 web",
        "demo: server create --flavor big --image disk --availability-zone z --hint group=g1 db",
    ]


def test_part_of_a_request_is_no_request() -> None:
    cloud = FakeCloud(servers={"admin": [server("web-2")], "demo": []})
    with pytest.raises(InvalidRequest, match="only some of web-1, web-2 exist: run with --clean first"):
        ScenarioPlayer(scenario(), cloud.seats()).create_servers()


def decision(chosen: str | None, *removed: str, **more: Any) -> dict[str, Any]:
    hosts = [{"host": name, "node": name} for name in removed]
    left = 1 if chosen else 0
    steps = [
        {"rule": "Quiet", "reason": "", "hosts_in": 2, "hosts_out": 2, "removed": []},
        {"rule": "Loud", "reason": "", "hosts_in": 2, "hosts_out": left, "removed": hosts},
    ]
    return {"chosen": chosen, "survivors": left, "forced": False, "steps": steps, **more}


def test_stories_are_told_from_the_decisions() -> None:
    fault = {"message": "No valid host was found."}
    cloud = FakeCloud(
        {
            "/decisions/id-web-1": {"decisions": [decision("node1", "node2"), decision("node2")]},
            "/decisions/id-web-2": {"decisions": [decision(None, "node1", "node2")]},
            "/decisions/id-db": {"decisions": [decision("node1", forced=True)]},
        },
        {"admin": [server("web-1"), server("web-2", "ERROR", fault=fault)], "demo": [server("db", "ERROR")]},
    )
    stories = ScenarioPlayer(scenario(), cloud.seats()).stories()
    assert stories["web-1"].landing == Landing("node1")
    assert stories["web-1"].why == ("the build on node2 failed", "Loud removed node2", "best of 1 host")
    assert stories["web-2"].landing == Landing(None, "Loud")
    assert stories["web-2"].why == ("Loud removed node1, node2", "fault: No valid host was found.")
    assert stories["db"].landing == Landing(None, "spawn")
    assert stories["db"].why == ("node1 was forced", "fault: no fault is recorded")


def test_cleaning_removes_what_the_scenario_names_and_keeps_what_every_cloud_has() -> None:
    cloud = FakeCloud(
        {
            "/os-aggregates": {"aggregates": [{"name": "fast", "hosts": ["node1"], "metadata": {}}]},
            "/flavors/detail": {"flavors": [{"name": "big"}, {"name": "m1.tiny"}]},
            "/v2/images": {"images": [{"name": "disk"}, {"name": "tiny"}]},
            "/os-server-groups": {"server_groups": [{"id": "g1", "name": "apart"}, {"id": "g2", "name": "other"}]},
        },
        {"admin": [server("web-1"), server("stranger")], "demo": []},
    )
    ScenarioPlayer(scenario(), cloud.seats()).clean()
    assert cloud.commands == [
        "admin: server delete id-web-1",
        "demo: server group delete g1",
        "admin: aggregate remove host fast node1",
        "admin: aggregate delete fast",
        "admin: flavor delete big",
        "admin: image delete disk",
    ]


def running(of: Scenario, **changes: Any) -> FakeCloud:
    """Return the cloud that a scenario describes, with some of its options changed."""
    options = json.loads(json.dumps(public_options(settings_of(of).conf)))
    for group, values in changes.items():
        options[group] |= values
    hypervisors = [
        {
            "service": {"host": host.name},
            "state": "up",
            "vcpus": host.vcpus,
            "memory_mb": host.memory_mib,
            "local_gb": host.disk_gib,
        }
        for host in of.hosts
    ]
    return FakeCloud({"/options": {"options": options}, "/os-hypervisors/detail": {"hypervisors": hypervisors}})


def test_the_scenarios_own_cloud_does_not_differ() -> None:
    of = scenario(
        options={"DEFAULT": {"default_schedule_zone": "z"}, "filter_scheduler": {"available_filters": ["a.b"]}}
    )
    assert differences(of, running(of).seats()["admin"].api) == ()


def test_every_difference_is_named() -> None:
    of = scenario(options={"DEFAULT": {"default_schedule_zone": "z"}})
    changes = {"DEFAULT": {"default_schedule_zone": None}, "scheduler": {"max_attempts": 9}, "api": {"max_limit": 1}}
    cloud = running(of, **changes)
    hypervisors = cloud.answers["/os-hypervisors/detail"]["hypervisors"]
    hypervisors[0]["vcpus"] = 99
    hypervisors[1]["state"] = "down"
    hypervisors += [{"service": {"host": f"x{number}"}, "state": "up"} for number in range(7)]
    assert differences(of, cloud.seats()["admin"].api) == (
        "missing hosts: node2",
        "additional hosts: x0, x1, x2, x3, x4 …",
        "different size: node1",
        "different options: [scheduler] max_attempts, [DEFAULT] default_schedule_zone",
    )


def test_hosts_that_fail_cannot_be_told_by_looking() -> None:
    of = scenario(hosts=[{"name": "node", "count": 2, "failing_spawns": -1}])
    assert differences(of, running(of).seats()["admin"].api) == ("its hosts do not simulate failing builds",)
    own = running(of, fake={"scenario": "/some/where/small.yaml"})
    assert differences(of, own.seats()["admin"].api) == ()


@pytest.mark.parametrize(
    "arguments", [["nowhere"], [], ["zones", "--data", "missing"], ["zones", "--fast"], ["ip-scheduler"]]
)
def test_bad_input_is_one_line_and_code_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("kilonova: ")
    assert err.count("\n") == 1


def test_a_table_of_unexpected_places_is_a_failure(capsys: pytest.CaptureFixture[str]) -> None:
    from kilonova.cli.commands.demo import tell

    cloud = FakeCloud(servers={"admin": [server("web-1"), server("web-2")], "demo": [server("db")]})
    console = Console(width=120)
    assert tell(scenario(), ScenarioPlayer(scenario(), cloud.seats()), console) == 1
    assert "Not as expected: db is on node1, and should be refused." in capsys.readouterr().out
