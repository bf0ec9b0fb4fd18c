# SPDX-License-Identifier: Apache-2.0
"""Operations on servers that only the operator API has: count them, remove one from its group, change its hints."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kilonova.db import instances
from kilonova.identifiers import new_uuid
from kilonova.model.instance import TaskState
from support.control import Control, start_control


@pytest.fixture(scope="module")
def control(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Control]:
    folder = tmp_path_factory.mktemp("servers")
    shutil.copy(sqlite_template, folder / "kilonova.db")
    started = start_control(
        folder,
        more="[filter_scheduler]\nenabled_filters = ComputeFilter,JsonFilter,"
        "ServerGroupAntiAffinityFilter,DifferentHostFilter\n",
    )
    started.add_flavor()
    yield started
    started.process.close()


def shown(control: Control, uuid: str) -> dict[str, Any]:
    found: dict[str, Any] = control.admin.get(f"/servers/{uuid}").body["server"]
    return found


def host(server: dict[str, Any]) -> str:
    return str(server["OS-EXT-SRV-ATTR:host"])


def test_servers_are_counted_with_the_filters_of_the_list(control: Control) -> None:
    for name in ("count-1", "count-2"):
        control.boot(name=name)
    control.boot(control.admin, name="other")
    member = control.operator.as_user("alice:wonder")
    assert member.get("/servers/count?name=^count-").body == {"count": 2}
    assert member.get("/servers/count?name=^count-&status=ERROR").body == {"count": 0}
    assert member.get("/servers/count?ip=10.0.0.1").body == {"count": 0}
    everything = control.operator.get("/servers/count?all_tenants=1").body["count"]
    assert everything == len(control.admin.get("/servers?all_tenants=1").body["servers"])
    assert control.operator.get("/servers/count?name=^count-").body == {"count": 0}
    assert member.get("/servers/count?all_tenants=1").status == 403
    for query, field in (("limit=1", "limit"), ("marker=x", "marker"), ("nonsense=1", "nonsense"), ("name=(", "name")):
        refused = member.get(f"/servers/count?{query}")
        assert refused.status == 400
        assert field in refused.fault[1]


def test_a_server_that_leaves_its_group_stays_where_it_is_and_binds_nobody(control: Control) -> None:
    made = control.member.at("2.64").post(
        "/os-server-groups", {"server_group": {"name": "apart", "policy": "anti-affinity"}}
    )
    group = made.body["server_group"]["id"]
    first, second = (control.boot(name=f"apart-{number}", hints={"group": group}) for number in (1, 2))
    assert {host(first), host(second)} == {"node1", "node2"}
    path = f"/servers/{first['id']}/leave-group"
    asked = {"leave_group": {"server_group": group}}
    assert control.operator.as_user("alice:wonder").post(path, asked).status == 403
    assert control.operator.post(path, {"leave_group": {"server_group": new_uuid()}}).status == 404
    assert control.operator.post(path, asked).status == 204
    after = shown(control, first["id"])
    assert (host(after), after["status"]) == (host(first), "ACTIVE")
    assert (after["server_groups"], after["scheduler_hints"]) == ([], {})
    members = control.member.at("2.64").get(f"/os-server-groups/{group}").body["server_group"]["members"]
    assert members == [second["id"]]
    assert control.operator.post(path, asked).status == 404
    third = control.boot(name="apart-3", hints={"group": group})
    assert host(third) == host(first)
    control.check()
    actions = control.admin.get(f"/servers/{first['id']}/os-instance-actions").body["instanceActions"]
    assert actions[0]["action"] == "leave_server_group"
    assert shown(control, second["id"])["scheduler_hints"] == {"group": group}


def test_later_moves_ask_with_the_hints_that_were_set(control: Control) -> None:
    server = control.boot(name="hinted")
    there = host(server)
    path = f"/servers/{server['id']}/hints"
    nowhere = {"query": '["=", "$host", "elsewhere"]'}
    assert control.operator.as_user("alice:wonder").put(path, {"hints": nowhere}).status == 403
    assert control.operator.put(path, {"hints": nowhere}).body == {"hints": nowhere}
    assert shown(control, server["id"])["scheduler_hints"] == nowhere
    control.admin.at("2.56").post(f"/servers/{server['id']}/action", {"migrate": None})
    control.settle()
    assert host(shown(control, server["id"])) == there
    assert control.operator.put(path, {"hints": {}}).body == {"hints": {}}
    assert control.admin.at("2.56").post(f"/servers/{server['id']}/action", {"migrate": None}).status == 202
    control.settle()
    assert host(shown(control, server["id"])) != there
    assert control.operator.put(f"/servers/{new_uuid()}/hints", {"hints": {}}).status == 404
    for hints, field in (({"group": new_uuid()}, "hints.group"), ({"a" * 256: "b"}, "hints"), ("text", "hints")):
        refused = control.operator.put(path, {"hints": hints})
        assert refused.status == 400
        assert field in refused.fault[1]


def test_what_is_under_way_is_not_changed_beneath(control: Control) -> None:
    server = control.boot(name="busy")
    database = control.process.database
    database.write(lambda tx: instances.change(tx, server["id"], task_state=TaskState.REBOOTING))
    assert control.operator.put(f"/servers/{server['id']}/hints", {"hints": {}}).status == 409
    database.write(lambda tx: instances.change(tx, server["id"], task_state=None))
    assert control.operator.put(f"/servers/{server['id']}/hints", {"hints": {}}).status == 200
