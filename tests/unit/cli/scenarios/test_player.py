# SPDX-License-Identifier: Apache-2.0
"""Replaying a scenario against a cloud of two dicts: the commands of the stock client that are run."""

from typing import Any

import pytest

from kilonova.cli.scenarios.player import ScenarioPlayer
from kilonova.errors import InvalidRequest
from kilonova.scenario.load import scenario_of
from kilonova.scenario.outcome import Landing
from support.scenario_cloud import FakeCloud, scenario, server


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
