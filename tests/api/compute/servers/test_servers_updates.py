# SPDX-License-Identifier: Apache-2.0
"""PUT /servers/{id}: what is noted of a server, and the zone that it is pinned to."""

from typing import Any

import pytest

from kilonova.db import instances, request_specs
from support.control import Control, NewControl

ADMINISTRATORS_PARTS = ("OS-EXT-", "OS-SRV-USG", "host_status", "os-extended-volumes")


@pytest.fixture(scope="module")
def control(new_shared_control: NewControl) -> Control:
    started = new_shared_control()
    for host, zone in (("node1", "east"), ("node2", "west")):
        aggregate = started.admin.post("/os-aggregates", {"aggregate": {"name": zone, "availability_zone": zone}})
        number = aggregate.body["aggregate"]["id"]
        assert started.admin.post(f"/os-aggregates/{number}/action", {"add_host": {"host": host}}).status == 200
    return started


@pytest.fixture(scope="module")
def server(control: Control) -> str:
    return str(control.boot(name="before", description="old")["id"])


def update(control: Control, uuid: str, asked: Any, version: str = "2.104", client: Any = None) -> Any:
    return (client or control.member).at(version).put(f"/servers/{uuid}", {"server": asked})


@pytest.mark.parametrize(
    ("version", "asked", "shown"),
    [
        ("2.1", {"name": "Grün (1)"}, {"name": "Grün (1)"}),
        (
            "2.1",
            {"accessIPv4": "10.1.2.3", "accessIPv6": "fe80::7"},
            {"accessIPv4": "10.1.2.3", "accessIPv6": "fe80::7"},
        ),
        ("2.1", {"OS-DCF:diskConfig": "AUTO"}, {"OS-DCF:diskConfig": "AUTO"}),
        ("2.1", {}, {}),
        ("2.19", {"description": "words\nand more"}, {"description": "words\nand more"}),
        ("2.19", {"description": None}, {"description": None}),
        ("2.90", {"hostname": "my-host"}, {"OS-EXT-SRV-ATTR:hostname": "my-host"}),
        ("2.94", {"hostname": "my.host.example"}, {"OS-EXT-SRV-ATTR:hostname": "my.host.example"}),
        ("2.94", {"hostname": "h"}, {"OS-EXT-SRV-ATTR:hostname": "h"}),
        ("2.94", {"hostname": "db_1.example"}, {"OS-EXT-SRV-ATTR:hostname": "db_1.example"}),
    ],
)
def test_what_can_be_changed(control: Control, server: str, version: str, asked: Any, shown: Any) -> None:
    answer = update(control, server, asked, version)
    assert answer.status == 200
    assert {name: answer.body["server"][name] for name in shown} == shown
    later = control.member.get(f"/servers/{server}").body["server"]
    assert {name: later[name] for name in shown} == shown
    control.check()


def test_the_answer_by_version(control: Control, server: str) -> None:
    for minor in (1, 9, 19, 26, 47, 63, 71, 73, 74, 75, 90, 98, 104):
        version = f"2.{minor}"
        for client in (control.member, control.admin):
            answer = update(control, server, {"name": "vm"}, version, client).body["server"]
            whole = client.at(version).get(f"/servers/{server}").body["server"]
            if minor >= 75:
                assert answer == whole
                continue
            left_out = set(whole) - set(answer)
            assert all(whole[name] == value for name, value in answer.items())
            assert not [name for name in answer if name.startswith(ADMINISTRATORS_PARTS)]
            assert {"config_drive", "key_name", "OS-EXT-STS:vm_state", "OS-EXT-AZ:availability_zone"} <= left_out
            assert {"metadata", "addresses", "image", "flavor", "OS-DCF:diskConfig", "progress"} <= set(answer)


@pytest.mark.parametrize(
    ("version", "asked", "word"),
    [
        ("2.1", {"name": ""}, "name"),
        ("2.1", {"name": " x"}, "name"),
        ("2.1", {"name": None}, "name"),
        ("2.1", {"accessIPv4": "fe80::7"}, "accessIPv4"),
        ("2.1", {"accessIPv6": "10.1.2.3"}, "accessIPv6"),
        ("2.1", {"OS-DCF:diskConfig": "SOMETIMES"}, "OS-DCF:diskConfig"),
        ("2.1", {"flavorRef": "1"}, "flavorRef"),
        ("2.18", {"description": "x"}, "description"),
        ("2.19", {"description": "x" * 256}, "description"),
        ("2.89", {"hostname": "h1"}, "hostname"),
        ("2.93", {"hostname": "my.host"}, "hostname"),
        ("2.94", {"hostname": "my host"}, "hostname"),
        ("2.94", {"hostname": ""}, "hostname"),
        ("2.94", {"hostname": "h" * 256}, "hostname"),
        ("2.103", {"pinned_availability_zone": None}, "pinned_availability_zone"),
        ("2.104", {"pinned_availability_zone": ""}, "pinned_availability_zone"),
    ],
)
def test_what_is_refused(control: Control, server: str, version: str, asked: Any, word: str) -> None:
    before = control.everything()
    answer = update(control, server, asked, version)
    assert answer.status == 400
    assert word in answer.fault[1]
    assert control.everything() == before


def test_whose_server(control: Control, server: str) -> None:
    assert update(control, server, {"name": "x"}, client=control.stranger).status == 404
    assert update(control, "5b674f73-0000-4000-8000-000000000000", {"name": "x"}).status == 404


def test_a_pinned_zone_is_of_one_server_alone(control: Control) -> None:
    control.boot(min_count=2, name="pair", user_data="c2VjcmV0")
    first, second = (each["id"] for each in control.member.get("/servers?name=^pair-").body["servers"])
    host = control.admin.get(f"/servers/{first}").body["server"]["OS-EXT-SRV-ATTR:host"]
    here, there = ("east", "west") if host == "node1" else ("west", "east")

    def pinned(uuid: str) -> Any:
        return control.member.get(f"/servers/{uuid}").body["server"]["pinned_availability_zone"]

    assert pinned(first) is None
    answer = update(control, first, {"pinned_availability_zone": there, "name": "other"})
    assert answer.status == 409
    assert here in answer.fault[1]
    assert pinned(first) is None
    assert control.member.get(f"/servers/{first}").body["server"]["name"] != "other"
    assert update(control, first, {"pinned_availability_zone": here}).body["server"]["pinned_availability_zone"] == here
    assert (pinned(first), pinned(second)) == (here, None)
    assert update(control, second, {"pinned_availability_zone": None}).status == 200
    assert update(control, first, {"pinned_availability_zone": None}).body["server"]["pinned_availability_zone"] is None
    with control.process.database.read() as connection:
        both = [instances.get(connection, uuid) for uuid in (first, second)]
        asked = request_specs.get_many(connection, both)
    assert {each.user_data for each in asked.values()} == {"c2VjcmV0"}
    assert len({each.uuid for each in asked.values()}) == 2
    control.check()
