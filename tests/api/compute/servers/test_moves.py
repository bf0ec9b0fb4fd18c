# SPDX-License-Identifier: Apache-2.0
"""Resize, cold and live migration through the API: who may, from where, with which answers, and what comes of it."""

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from kilonova.db.core import tables as t
from support.api_client import Answer, Client
from support.control import Control, start_control


@pytest.fixture
def moving(control: Control) -> Control:
    """Two hosts, two flavors, of which the second is larger."""
    control.add_flavor("2", ram=1024, vcpus=2, disk=2)
    return control


@pytest.fixture
def three(sqlite_template: Path, tmp_path: Path) -> Iterator[Control]:
    yield from _started(
        sqlite_template,
        tmp_path,
        scenario="images: [{name: cirros}]\nhosts:\n"
        "  - {name: node1, vcpus: 8, memory_mib: 16384}\n"
        "  - {name: node2, vcpus: 8, memory_mib: 16384}\n"
        "  - {name: node3, vcpus: 2, memory_mib: 2048}\n",
    )


@pytest.fixture(scope="module")
def resting(
    sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Control, dict[str, Any]]]:
    """A server that stays where it is, for requests that are refused or live-migrate it."""
    for control in _started(sqlite_template, tmp_path_factory.mktemp("resting")):
        control.add_flavor("2", ram=1024, vcpus=2, disk=2)
        control.add_flavor("off", ram=1024, vcpus=2, disk=2)
        control.add_flavor("none", disk=0)
        disable = sa.update(t.flavors).where(t.flavors.c.flavor_id == "off").values(disabled=True)
        control.process.database.write(lambda tx, disable=disable: tx.execute(disable))
        yield control, control.boot()


def _started(template: Path, folder: Path, **options: Any) -> Iterator[Control]:
    shutil.copy(template, folder / "kilonova.db")
    started = start_control(folder, **options)
    started.add_flavor()
    yield started
    started.process.close()


def act(control: Control, uuid: str, body: Any, client: Client | None = None) -> Answer:
    return (client or control.admin).post(f"/servers/{uuid}/action", body)


def done(control: Control, uuid: str, body: Any, client: Client | None = None, *, status: int = 202) -> dict[str, Any]:
    """Ask for an action, wait until nothing is under way, and show the server."""
    answer = act(control, uuid, body, client)
    assert (answer.status, answer.raw) == (status, b""), answer.body
    return shown(control, uuid)


def shown(control: Control, uuid: str) -> dict[str, Any]:
    control.settle()
    server: dict[str, Any] = control.admin.get(f"/servers/{uuid}").body["server"]
    return server


def host_of(server: dict[str, Any]) -> str:
    host: str = server["OS-EXT-SRV-ATTR:host"]
    return host


def other(host: str) -> str:
    return {"node1": "node2", "node2": "node1"}[host]


def test_a_resize_that_is_confirmed(moving: Control) -> None:
    before = moving.boot()
    after = done(moving, before["id"], {"resize": {"flavorRef": "2"}}, moving.member)
    assert after["status"] == "VERIFY_RESIZE"
    assert (after["flavor"]["ram"], after["flavor"]["vcpus"]) == (1024, 2)
    assert host_of(after) == other(host_of(before))
    assert after["OS-EXT-STS:task_state"] is None
    assert after["OS-EXT-STS:power_state"] == 1
    kept = done(moving, before["id"], {"confirmResize": None}, moving.member, status=204)
    assert (kept["status"], host_of(kept), kept["flavor"]["ram"]) == ("ACTIVE", host_of(after), 1024)
    moving.check()


def test_a_resize_that_is_reverted(moving: Control) -> None:
    before = moving.boot()
    done(moving, before["id"], {"resize": {"flavorRef": "2"}})
    back = done(moving, before["id"], {"revertResize": None}, moving.member)
    assert back["status"] == "ACTIVE"
    assert (host_of(back), back["flavor"]) == (host_of(before), before["flavor"])
    assert back["OS-EXT-STS:power_state"] == 1
    moving.check()


@pytest.mark.parametrize(("end", "status"), [("confirmResize", 204), ("revertResize", 202)])
def test_a_server_that_was_off_is_off_again(moving: Control, end: str, status: int) -> None:
    uuid = moving.boot()["id"]
    done(moving, uuid, {"os-stop": None})
    resized = done(moving, uuid, {"resize": {"flavorRef": "2"}})
    assert (resized["status"], resized["OS-EXT-STS:power_state"]) == ("VERIFY_RESIZE", 4)
    ended = done(moving, uuid, {end: None}, status=status)
    assert (ended["status"], ended["OS-EXT-STS:power_state"]) == ("SHUTOFF", 4)
    moving.check()


def test_a_resize_takes_the_disk_config_with_it(moving: Control) -> None:
    uuid = moving.boot()["id"]
    after = done(moving, uuid, {"resize": {"flavorRef": "2", "OS-DCF:diskConfig": "AUTO"}})
    assert after["OS-DCF:diskConfig"] == "AUTO"


def test_a_cold_migration(moving: Control) -> None:
    before = moving.boot()
    after = done(moving, before["id"], {"migrate": None})
    assert (after["status"], host_of(after)) == ("VERIFY_RESIZE", other(host_of(before)))
    assert after["flavor"] == before["flavor"]
    done(moving, before["id"], {"confirmResize": None}, status=204)
    moving.check()


def test_a_cold_migration_to_a_host(three: Control) -> None:
    """node3 is the last that the weighers would choose; before 2.56 a host was passed over."""
    before = three.boot()
    assert host_of(done(three, before["id"], {"migrate": {"host": "node3"}}, three.admin.at("2.55"))) != "node3"
    done(three, before["id"], {"revertResize": None})
    assert host_of(done(three, before["id"], {"migrate": {"host": "node3"}}, three.admin.at("2.56"))) == "node3"
    done(three, before["id"], {"confirmResize": None}, status=204)
    three.check()


SLOW = """
images: [{name: cirros}]
hosts:
  - {name: node1, vcpus: 8, memory_mib: 16384, move_delay_s: 0.3}
  - {name: node2, vcpus: 8, memory_mib: 16384, move_delay_s: 0.3}
"""
LIVE: dict[str, Any] = {"host": None, "block_migration": "auto"}
LIVE_FORMS = [
    ("2.1", {"host": None, "block_migration": False, "disk_over_commit": False}),
    ("2.24", {"host": "OTHER", "block_migration": "True", "disk_over_commit": True}),
    ("2.25", {"host": None, "block_migration": "auto"}),
    ("2.29", {"host": "OTHER", "block_migration": True}),
    ("2.30", {"host": "OTHER", "block_migration": "auto", "force": True}),
    ("2.34", {"host": "OTHER", "block_migration": "auto", "force": False}),
    ("2.67", {"host": None, "block_migration": "auto", "force": "False"}),
    ("2.68", {"host": "OTHER", "block_migration": "auto"}),
    ("2.104", {"host": None, "block_migration": False}),
]


@pytest.mark.parametrize(("version", "asked"), LIVE_FORMS)
def test_a_live_migration(resting: Any, version: str, asked: dict[str, Any]) -> None:
    control, server = resting
    target = other(host_of(shown(control, server["id"])))
    asked = {**asked, "host": asked["host"] and target}
    after = done(control, server["id"], {"os-migrateLive": asked}, control.admin.at(version))
    assert (after["status"], host_of(after)) == ("ACTIVE", target)
    assert (after["OS-EXT-STS:power_state"], after["progress"]) == (1, 0)
    control.check()


@pytest.mark.parametrize(
    ("version", "asked", "words"),
    [
        ("2.1", {"host": None, "block_migration": False}, "disk_over_commit"),
        ("2.24", {"host": None, "block_migration": "auto", "disk_over_commit": False}, "block_migration"),
        ("2.25", {"host": None, "block_migration": "auto", "disk_over_commit": False}, "disk_over_commit"),
        ("2.25", {"block_migration": "auto"}, "host"),
        ("2.29", {**LIVE, "force": True}, "force"),
        ("2.30", {**LIVE, "force": True}, "force"),
        ("2.68", {**LIVE, "force": True}, "force"),
        ("2.68", {**LIVE, "host": ""}, "host"),
        ("2.68", {**LIVE, "host": "no such host"}, "host"),
        ("2.68", {**LIVE, "host": "elsewhere"}, "Compute host elsewhere could not be found"),
        ("2.68", {**LIVE, "host": "SOURCE"}, "already"),
        ("2.30", {**LIVE, "host": "SOURCE", "force": True}, "already"),
        ("2.68", None, "os-migrateLive"),
    ],
)
def test_a_bad_live_migration(resting: Any, version: str, asked: Any, words: str) -> None:
    control, server = resting
    if asked and asked.get("host") == "SOURCE":
        asked = {**asked, "host": host_of(shown(control, server["id"]))}
    refused(control, server["id"], {"os-migrateLive": asked}, words, control.admin.at(version))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"resize": {}}, "flavorRef"),
        ({"resize": None}, "resize"),
        ({"resize": {"flavorRef": ""}}, "flavorRef"),
        ({"resize": {"flavorRef": "99"}}, "Flavor 99 could not be found"),
        ({"resize": {"flavorRef": "1"}}, "has this flavor already"),
        ({"resize": {"flavorRef": "2", "OS-DCF:diskConfig": "SOME"}}, "OS-DCF:diskConfig"),
        ({"resize": {"flavorRef": "2", "host": "node2"}}, "host"),
        ({"resize": {"flavorRef": "off"}}, "disabled"),
        ({"resize": {"flavorRef": "none"}}, "cannot be made smaller"),
        ({"migrate": {"host": "elsewhere"}}, "Compute host elsewhere could not be found"),
        ({"migrate": {"host": "SOURCE"}}, "already"),
        ({"migrate": {"hosts": "node1"}}, "hosts"),
        ({"migrate": "node1"}, "migrate"),
        ({"confirmResize": {}}, "vm_state active"),
        ({"confirmResize": None}, "vm_state active"),
        ({"revertResize": None}, "vm_state active"),
        ({"revertResize": ""}, "vm_state active"),
    ],
)
def test_bad_moves(resting: Any, body: Any, words: str) -> None:
    control, server = resting
    if body == {"migrate": {"host": "SOURCE"}}:
        body = {"migrate": {"host": host_of(shown(control, server["id"]))}}
    if "vm_state" in words:
        assert words in conflict(control, server["id"], body)
    else:
        refused(control, server["id"], body, words)


def refused(control: Control, uuid: str, body: Any, words: str, client: Client | None = None) -> None:
    before = control.everything()
    answer = act(control, uuid, body, client)
    assert (answer.status, words in answer.fault[1]) == (400, True), answer.body
    assert control.everything() == before


def test_moves_in_the_wrong_state(moving: Control) -> None:
    uuid = moving.boot()["id"]
    done(moving, uuid, {"resize": {"flavorRef": "2"}})
    for body in ({"resize": {"flavorRef": "1"}}, {"migrate": None}, {"os-migrateLive": LIVE}, {"os-stop": None}):
        assert "vm_state resized" in conflict(moving, uuid, body)
    done(moving, uuid, {"confirmResize": None}, status=204)
    done(moving, uuid, {"os-stop": None})
    assert "vm_state stopped" in conflict(moving, uuid, {"os-migrateLive": LIVE})


def conflict(control: Control, uuid: str, body: Any) -> str:
    before = control.everything()
    answer = act(control, uuid, body)
    assert answer.status == 409, answer.body
    assert control.everything() == before
    return answer.fault[1]


def test_a_resize_that_may_stay_stays_where_the_rules_like_it_best(sqlite_template: Path, tmp_path: Path) -> None:
    """There is one host."""
    scenario = "images: [{name: cirros}]\nhosts: [{name: only, vcpus: 8, memory_mib: 16384}]\n"
    more = "[DEFAULT]\nallow_resize_to_same_host = true\n"
    for control in _started(sqlite_template, tmp_path, scenario=scenario, more=more):
        control.add_flavor("2", ram=1024, vcpus=2, disk=2)
        uuid = control.boot()["id"]
        assert done(control, uuid, {"resize": {"flavorRef": "2"}})["status"] == "VERIFY_RESIZE"
        assert done(control, uuid, {"revertResize": None})["flavor"]["ram"] == 512
        assert done(control, uuid, {"resize": {"flavorRef": "2"}})["status"] == "VERIFY_RESIZE"
        after = done(control, uuid, {"confirmResize": None}, status=204)
        assert (after["status"], after["flavor"]["ram"], host_of(after)) == ("ACTIVE", 1024, "only")
        control.check()


def test_without_that_option_a_resize_looks_for_another_host(sqlite_template: Path, tmp_path: Path) -> None:
    scenario = "images: [{name: cirros}]\nhosts: [{name: only, vcpus: 8, memory_mib: 16384}]\n"
    for control in _started(sqlite_template, tmp_path, scenario=scenario):
        control.add_flavor("2", ram=1024, vcpus=2, disk=2)
        before = control.boot()
        for body in ({"resize": {"flavorRef": "2"}}, {"migrate": None}, {"os-migrateLive": LIVE}):
            after = done(control, before["id"], body)
            assert (after["status"], after["flavor"], host_of(after)) == ("ACTIVE", before["flavor"], "only")
        control.check()


def test_a_forced_host_bypasses_the_rules(sqlite_template: Path, tmp_path: Path) -> None:
    """There may be one server on each host, and there is."""
    more = "[filter_scheduler]\nenabled_filters = NumInstancesFilter\nmax_instances_per_host = 1\n"
    for control in _started(sqlite_template, tmp_path, more=more):
        before = control.boot()
        target = host_of(control.boot())
        asked = {"host": target, "block_migration": "auto"}
        for version, force in (("2.30", {"force": False}), ("2.68", {})):
            body = {"os-migrateLive": {**asked, **force}}
            assert host_of(done(control, before["id"], body, control.admin.at(version))) == host_of(before)
        forced = {"os-migrateLive": {**asked, "force": True}}
        assert host_of(done(control, before["id"], forced, control.admin.at("2.67"))) == target
        control.check()


def test_a_resize_beyond_the_quota(moving: Control) -> None:
    uuid = moving.boot()["id"]
    assert moving.admin.put("/os-quota-sets/wonder", {"quota_set": {"ram": 1000}}).status == 200
    before = moving.everything()
    answer = act(moving, uuid, {"resize": {"flavorRef": "2"}}, moving.member)
    assert (answer.status, "ram" in answer.fault[1]) == (403, True)
    assert moving.everything() == before


def test_nobody_moves_a_server_whose_host_is_down(moving: Control) -> None:
    server = moving.boot()
    down = {"host": host_of(server), "binary": "nova-compute", "forced_down": True}
    assert moving.admin.at("2.11").put("/os-services/force-down", down).status == 200
    for body in ({"resize": {"flavorRef": "2"}}, {"migrate": None}):
        assert "is down" in conflict(moving, server["id"], body)
    refused(moving, server["id"], {"os-migrateLive": LIVE}, "is down")


def test_who_may_move_whose_servers(moving: Control) -> None:
    uuid = moving.boot()["id"]
    reader, manager = (
        Client(moving.process.application, "bob:wonder", "2.100", {"X-Roles": roles})
        for roles in ("reader", "reader,member,manager")
    )
    host = other(host_of(shown(moving, uuid)))
    resizes = [{"resize": {"flavorRef": "2"}}, {"confirmResize": None}, {"revertResize": None}]
    migrations = [{"migrate": None}, {"os-migrateLive": LIVE}]
    directed = [{"migrate": {"host": host}}, {"os-migrateLive": {**LIVE, "host": host}}]
    before = moving.everything()
    for body in (*resizes, *migrations, *directed):
        assert act(moving, uuid, body, moving.stranger).status == 404
        assert act(moving, uuid, body, reader).status == 403
    for body in (*migrations, *directed):
        assert act(moving, uuid, body, moving.member).status == 403
    for body in directed:
        assert act(moving, uuid, body, manager).status == 403
    assert moving.everything() == before
    assert done(moving, uuid, {"os-migrateLive": LIVE}, manager)["status"] == "ACTIVE"


def test_of_a_confirmation_and_a_way_back_at_once_one_wins(moving: Control) -> None:
    for _ in range(3):
        before = moving.boot()
        resized = done(moving, before["id"], {"resize": {"flavorRef": "2"}})
        bodies = [{"confirmResize": None}, {"revertResize": None}] * 2
        with ThreadPoolExecutor(len(bodies)) as pool:
            answers = list(pool.map(partial(act, moving, before["id"]), bodies))
        won = [body for body, answer in zip(bodies, answers, strict=True) if answer.status < 300]
        assert len(won) == 1, [(answer.status, answer.body) for answer in answers]
        assert {answer.status for answer in answers} <= {202, 204, 400, 409}
        after, expected = shown(moving, before["id"]), resized if "confirmResize" in won[0] else before
        assert (after["status"], host_of(after), after["flavor"]) == ("ACTIVE", host_of(expected), expected["flavor"])
        moving.check()


def test_of_several_moves_at_once_one_wins(moving: Control) -> None:
    uuid = moving.boot()["id"]
    bodies = [{"resize": {"flavorRef": "2"}}, {"migrate": None}, {"os-migrateLive": LIVE}, {"os-stop": None}]
    with ThreadPoolExecutor(len(bodies)) as pool:
        answers = list(pool.map(partial(act, moving, uuid), bodies))
    assert sorted(answer.status for answer in answers) == [202, 409, 409, 409]
    moving.settle()


@pytest.mark.parametrize("asks_for_host", [True, False])
def test_a_server_that_is_moved_between_the_look_at_it_and_its_move(
    moving: Control, monkeypatch: pytest.MonkeyPatch, *, asks_for_host: bool
) -> None:
    """It is moved from where it is by then, but not to the host that was another one when it was looked at."""
    before = moving.boot()
    uuid, there = before["id"], other(host_of(before))
    moves = moving.process.conductor.operations.moves
    migrate = moves.migrate

    def late(*args: Any, **options: Any) -> None:
        done(moving, uuid, {"os-migrateLive": LIVE})
        migrate(*args, **options)

    monkeypatch.setattr(moves, "migrate", late)
    answer = act(moving, uuid, {"migrate": {"host": there} if asks_for_host else None}, moving.admin.at("2.56"))
    after = shown(moving, uuid)
    if asks_for_host:
        assert (answer.status, answer.body["conflictingRequest"]["message"].endswith(f"already on host {there}.")) == (
            409,
            True,
        )
        assert (after["status"], host_of(after)) == ("ACTIVE", there)
    else:
        assert answer.status == 202
        assert (after["status"], host_of(after)) == ("VERIFY_RESIZE", host_of(before))
    moving.check()


def test_what_a_server_shows_while_it_moves(sqlite_template: Path, tmp_path: Path) -> None:
    """Each step takes a while, which no step needs before a request for the next one is answered."""
    for control in _started(sqlite_template, tmp_path, scenario=SLOW):
        control.add_flavor("2", ram=1024, vcpus=2, disk=2)
        before = control.boot()
        path = f"/servers/{before['id']}"
        assert act(control, before["id"], {"resize": {"flavorRef": "2"}}).status == 202
        during = control.admin.get(path).body["server"]
        assert (during["status"], during["progress"], host_of(during)) == ("RESIZE", 0, host_of(before))
        assert during["flavor"] == before["flavor"]
        assert "RESIZE" in {each["status"] for each in control.member.get("/servers/detail").body["servers"]}
        assert control.member.get("/servers?status=RESIZE").body["servers"][0]["id"] == before["id"]
        conflict_of = act(control, before["id"], {"resize": {"flavorRef": "2"}})
        assert (conflict_of.status, "task_state resize_" in conflict_of.fault[1]) == (409, True)
        assert shown(control, before["id"])["status"] == "VERIFY_RESIZE"
        assert act(control, before["id"], {"revertResize": None}).status == 202
        assert control.admin.get(path).body["server"]["status"] == "REVERT_RESIZE"
        assert shown(control, before["id"])["status"] == "ACTIVE"
        assert act(control, before["id"], {"migrate": None}).status == 202
        assert control.member.delete(path).status == 204
        assert control.check() == {}


def test_a_server_is_deleted_wherever_its_move_is(moving: Control) -> None:
    for body in ({"resize": {"flavorRef": "2"}}, {"migrate": None}, {"os-migrateLive": LIVE}):
        for late in (True, False):
            uuid = moving.boot()["id"]
            assert act(moving, uuid, body).status == 202
            if late:
                moving.settle()
            assert moving.member.delete(f"/servers/{uuid}").status == 204
            assert moving.check() == {}
            assert moving.admin.get(f"/servers/{uuid}").status == 404
