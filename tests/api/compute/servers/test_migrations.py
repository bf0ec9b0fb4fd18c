# SPDX-License-Identifier: Apache-2.0
"""Migrations as lists and as things to end sooner, at every microversion that changes them."""

import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from support.api_client import Answer, Client
from support.control import Control, start_control
from support.waiting import wait_until

_SLOW = """
images: [{name: cirros}]
hosts:
  - {name: node1, vcpus: 8, memory_mib: 16384, live_migration_s: 60}
  - {name: node2, vcpus: 8, memory_mib: 16384, live_migration_s: 60}
"""
LIVE: dict[str, Any] = {"os-migrateLive": {"host": None, "block_migration": "auto"}}


@pytest.fixture
def slow(sqlite_template: Path, tmp_path: Path) -> Iterator[Control]:
    """Two hosts between which copying a guest takes a minute."""
    yield from started(sqlite_template, tmp_path, _SLOW)


def started(template: Path, folder: Path, scenario: str) -> Iterator[Control]:
    shutil.copy(template, folder / "kilonova.db")
    control = start_control(folder, scenario=scenario)
    control.add_flavor()
    control.add_flavor("2", ram=1024, vcpus=2, disk=2)
    yield control
    control.process.close()


def go(control: Control, uuid: str, body: Any) -> None:
    answer = control.admin.post(f"/servers/{uuid}/action", body)
    assert answer.status in {202, 204}, answer.body


def migrations(control: Control, query: str = "", client: Client | None = None) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = (client or control.admin).get(f"/os-migrations{query}").body["migrations"]
    return listed


def server(control: Control, uuid: str) -> dict[str, Any]:
    shown: dict[str, Any] = control.admin.get(f"/servers/{uuid}").body["server"]
    return shown


def copying(control: Control, **wanted: Any) -> tuple[str, int]:
    """Boot a server and live-migrate it until its guest is being copied; return its uuid and the migration's number."""
    uuid = control.boot(**wanted)["id"]
    go(control, uuid, LIVE)
    wait_until(lambda: progress_of(control, uuid) is not None, "copying")
    return uuid, migrations(control, f"?instance_uuid={uuid}")[0]["id"]


def progress_of(control: Control, uuid: str) -> Any:
    running = control.admin.get(f"/servers/{uuid}/migrations").body["migrations"]
    return running[0]["memory_total_bytes"] if running and running[0]["status"] == "running" else None


def test_a_live_migration_is_shown_while_it_runs_and_is_aborted(slow: Control) -> None:
    uuid, number = copying(slow)
    before = server(slow, uuid)
    assert (before["status"], before["OS-EXT-STS:task_state"]) == ("MIGRATING", "migrating")
    (listed,) = slow.admin.get(f"/servers/{uuid}/migrations").body["migrations"]
    shown = slow.admin.get(f"/servers/{uuid}/migrations/{number}").body["migration"]
    assert shown == listed
    assert (shown["server_uuid"], shown["status"], shown["id"]) == (uuid, "running", number)
    assert shown["source_compute"] == before["OS-EXT-SRV-ATTR:host"] != shown["dest_compute"]
    assert (shown["memory_total_bytes"], shown["disk_total_bytes"]) == (512 << 20, 1 << 30)
    assert shown["memory_processed_bytes"] + shown["memory_remaining_bytes"] == 512 << 20
    assert shown["user_id"] == "admin"

    answer = slow.admin.delete(f"/servers/{uuid}/migrations/{number}")
    assert (answer.status, answer.raw) == (202, b"")
    slow.settle()
    after = server(slow, uuid)
    assert (after["status"], after["progress"]) == ("ACTIVE", 0)
    assert after["OS-EXT-SRV-ATTR:host"] == before["OS-EXT-SRV-ATTR:host"]
    assert "fault" not in after
    assert migrations(slow)[0]["status"] == "cancelled"
    assert slow.admin.get(f"/servers/{uuid}/migrations").body == {"migrations": []}
    assert slow.admin.get(f"/servers/{uuid}/migrations/{number}").status == 404
    slow.check()


def test_a_live_migration_is_forced_to_complete(slow: Control) -> None:
    uuid, number = copying(slow)
    home = server(slow, uuid)["OS-EXT-SRV-ATTR:host"]
    answer = slow.admin.post(f"/servers/{uuid}/migrations/{number}/action", {"force_complete": None})
    assert (answer.status, answer.raw) == (202, b"")
    slow.settle()
    assert server(slow, uuid)["OS-EXT-SRV-ATTR:host"] != home
    assert migrations(slow)[0]["status"] == "completed"
    slow.check()


def test_what_cannot_be_ended_sooner(slow: Control) -> None:
    uuid = slow.boot()["id"]
    go(slow, uuid, {"migrate": None})
    slow.settle()
    cold = migrations(slow)[0]["id"]
    ends = (
        partial(slow.admin.delete, f"/servers/{uuid}/migrations/{cold}"),
        partial(slow.admin.post, f"/servers/{uuid}/migrations/{cold}/action", {"force_complete": None}),
    )
    for end in ends:
        assert end().status == 409  # it is not being migrated live
    go(slow, uuid, {"revertResize": None})
    slow.settle()
    go(slow, uuid, LIVE)
    wait_until(lambda: progress_of(slow, uuid) is not None, "copying")
    for end in ends:
        assert "is reverted" in refused(end(), 400)
    live = migrations(slow)[0]["id"]
    for number, status in ((99999, 404), ("word", 400), ("-1", 404), ("9" * 30, 404)):
        refused(slow.admin.delete(f"/servers/{uuid}/migrations/{number}"), status)
        refused(slow.admin.get(f"/servers/{uuid}/migrations/{number}"), status)
    assert slow.admin.get(f"/servers/{uuid}/migrations/{cold}").status == 404
    refused(slow.admin.delete(f"/servers/00000000-0000-4000-8000-000000000000/migrations/{live}"), 404)
    for body in ({"force_complete": {}}, {"force": None}, None, {}):
        refused(slow.admin.post(f"/servers/{uuid}/migrations/{live}/action", body), 400)
    assert slow.admin.delete(f"/servers/{uuid}/migrations/{live}").status == 202
    force = slow.admin.post(f"/servers/{uuid}/migrations/{live}/action", {"force_complete": None})
    assert force.status in {400, 409}  # the abort came first
    slow.settle()
    assert [each["status"] for each in migrations(slow)] == ["cancelled", "reverted"]
    slow.check()


def refused(answer: Answer, status: int) -> str:
    assert answer.status == status, answer.body
    return answer.fault[1]


def test_a_server_is_deleted_while_it_is_copied(slow: Control) -> None:
    uuid, _ = copying(slow)
    assert slow.member.delete(f"/servers/{uuid}").status == 204
    assert slow.check() == {}
    (gone,) = migrations(slow)
    assert gone["status"] in {"error", "failed", "cancelled"}


@pytest.mark.parametrize("forced", [True, False])
def test_a_live_migration_that_fails_leaves_the_server_running(
    sqlite_template: Path, tmp_path: Path, forced: bool
) -> None:
    failing = _SLOW.replace("live_migration_s: 60", "live_migration_s: 60, failing_live_migrations: -1")
    scenario = failing if forced else failing.replace("live_migration_s: 60, ", "")
    for control in started(sqlite_template, tmp_path, scenario):
        if forced:
            uuid, number = copying(control)
            assert (
                control.admin.post(f"/servers/{uuid}/migrations/{number}/action", {"force_complete": None}).status
                == 202
            )
        else:
            uuid = control.boot()["id"]
            go(control, uuid, LIVE)
        control.settle()
        after = server(control, uuid)
        assert (after["status"], after["OS-EXT-STS:task_state"]) == ("ACTIVE", None)
        assert after["OS-EXT-STS:power_state"] == 1
        assert migrations(control)[0]["status"] == "error"
        action = control.admin.get(f"/servers/{uuid}/os-instance-actions").body["instanceActions"]
        assert {each["action"]: each["message"] for each in action}["live-migration"] == "Error"
        control.check()


def test_a_service_is_not_deleted_while_servers_move_from_or_to_its_host(control: Control) -> None:
    control.add_flavor("2", ram=1024, vcpus=2, disk=2)
    uuid = control.boot()["id"]
    go(control, uuid, {"resize": {"flavorRef": "2"}})
    control.settle()
    (move,) = migrations(control)
    ids = {each["host"]: each["id"] for each in control.admin.get("/os-services").body["services"]}
    before = control.everything()
    for host in (move["source_compute"], move["dest_compute"]):
        assert control.admin.delete(f"/os-services/{ids[host]}").status == 409
    assert control.everything() == before
    go(control, uuid, {"confirmResize": None})
    control.settle()
    assert control.admin.delete(f"/os-services/{ids[move['dest_compute']]}").status == 409
    assert control.admin.delete(f"/os-services/{ids[move['source_compute']]}").status == 204


@pytest.fixture(scope="module")
def history(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Control, str]]:
    """A server that was resized and reverted, migrated and confirmed, and is resized and neither yet."""
    for control in started(sqlite_template, tmp_path_factory.mktemp("history"), _SLOW):
        uuid = control.boot()["id"]
        for body in (
            {"resize": {"flavorRef": "2"}},
            {"revertResize": None},
            {"migrate": None},
            {"confirmResize": None},
            {"resize": {"flavorRef": "2"}},
        ):
            go(control, uuid, body)
            control.settle()
        yield control, uuid


_FIRST = {
    "id", "instance_uuid", "status", "old_instance_type_id", "new_instance_type_id", "created_at", "updated_at",
    "source_compute", "source_node", "dest_compute", "dest_node", "dest_host",
}  # fmt: skip


@pytest.mark.parametrize(
    ("version", "more"),
    [
        ("2.1", set()),
        ("2.22", set()),
        ("2.23", {"migration_type"}),
        ("2.59", {"migration_type", "uuid"}),
        ("2.80", {"migration_type", "uuid", "user_id", "project_id"}),
        ("2.104", {"migration_type", "uuid", "user_id", "project_id"}),
    ],
)
def test_the_list_at_each_version(history: Any, version: str, more: set[str]) -> None:
    control, uuid = history
    listed = migrations(control, client=control.admin.at(version))
    assert [each["status"] for each in listed] == ["finished", "confirmed", "reverted"]
    assert {frozenset(each) for each in listed} == {frozenset(_FIRST | more)}
    assert {each["instance_uuid"] for each in listed} == {uuid}
    resize, cold, _ = listed
    assert resize["old_instance_type_id"] != resize["new_instance_type_id"]
    assert cold["old_instance_type_id"] == cold["new_instance_type_id"]
    assert cold["dest_host"]


@pytest.mark.parametrize(
    ("query", "statuses"),
    [
        ("?status=confirmed", ["confirmed"]),
        ("?migration_type=resize", ["finished", "reverted"]),
        ("?migration_type=evacuation", []),
        ("?host=node1", ["finished", "confirmed", "reverted"]),
        ("?host=node9", []),
        ("?hidden=1", []),
        ("?hidden=0&status=reverted", ["reverted"]),
        ("?instance_uuid=00000000-0000-4000-8000-000000000000", []),
        ("?user_id=admin&project_id=admin", ["finished", "confirmed", "reverted"]),
        ("?user_id=bob", []),
        ("?project_id=elsewhere", []),
        ("?changes-since=2000-01-01T00:00:00Z", ["finished", "confirmed", "reverted"]),
        ("?changes-since=2100-01-01T00:00:00Z", []),
        ("?changes-before=2000-01-01T00:00:00Z", []),
        ("?limit=0", []),
        ("?limit=1", ["finished"]),
    ],
)
def test_filters(history: Any, query: str, statuses: list[str]) -> None:
    control, _ = history
    assert [each["status"] for each in migrations(control, query)] == statuses


def test_source_compute_is_the_source_alone(history: Any) -> None:
    control, _ = history
    everything = migrations(control)
    for host in ("node1", "node2"):
        expected = [each["id"] for each in everything if each["source_compute"] == host]
        assert [each["id"] for each in migrations(control, f"?source_compute={host}")] == expected


def test_pages(history: Any) -> None:
    control, _ = history
    seen, path = [], "/os-migrations?limit=2"
    while path:
        body = control.admin.get(path).body
        seen += [each["status"] for each in body["migrations"]]
        links = body.get("migrations_links", [])
        path = links[0]["href"].partition("/v2.1")[2] if links else ""
    assert seen == ["finished", "confirmed", "reverted"]
    assert "migrations_links" not in control.admin.at("2.58").get("/os-migrations?limit=2").body


@pytest.mark.parametrize(
    ("version", "query"),
    [
        ("2.59", "?limit=-1"),
        ("2.59", "?limit=x"),
        ("2.59", "?marker=00000000-0000-4000-8000-000000000000"),
        ("2.59", "?instance_uuid=vm"),
        ("2.59", "?changes-since=yesterday"),
        ("2.59", "?changes-before=2020-01-01T00:00:00Z"),
        ("2.66", "?changes-since=2020-01-02&changes-before=2020-01-01"),
        ("2.79", "?user_id=admin"),
        ("2.80", "?sort_key=id"),
        ("2.1", "?hidden=perhaps"),
    ],
)
def test_bad_queries(history: Any, version: str, query: str) -> None:
    control, _ = history
    refused(control.admin.at(version).get(f"/os-migrations{query}"), 400)


def test_what_versions_before_do_not_have(history: Any) -> None:
    control, uuid = history
    number = migrations(control)[0]["id"]
    one = f"/servers/{uuid}/migrations/{number}"
    assert control.admin.at("2.22").get(f"/servers/{uuid}/migrations").status == 404
    assert control.admin.at("2.22").get(one).status == 404
    assert control.admin.at("2.23").delete(one).status == 404
    assert control.admin.at("2.21").post(f"{one}/action", {"force_complete": None}).status == 404


def test_managers_see_their_project_and_no_hosts(slow: Control) -> None:
    manager, foreign = (
        Client(slow.process.application, f"bob:{project}", "2.100", {"X-Roles": "reader,member,manager"})
        for project in ("wonder", "elsewhere")
    )
    uuid = slow.boot()["id"]
    assert manager.post(f"/servers/{uuid}/action", LIVE).status == 202
    wait_until(lambda: progress_of(slow, uuid) is not None, "copying")
    (listed,) = migrations(slow, client=manager)
    (running,) = manager.get(f"/servers/{uuid}/migrations").body["migrations"]
    hosts = ("source_compute", "source_node", "dest_compute", "dest_node", "dest_host")
    for view in (listed, running):
        assert {name: view[name] for name in hosts} == dict.fromkeys(hosts)
    assert listed["links"][0]["href"].endswith(f"/servers/{uuid}/migrations/{listed['id']}")
    assert migrations(slow, client=foreign) == []
    assert slow.member.get("/os-migrations").status == 403
    assert manager.get("/os-migrations?project_id=elsewhere").status == 403
    for name in ("host", "source_compute"):  # whoever guesses learns which hosts there are
        assert [manager.get(f"/os-migrations?{name}={each}").status for each in ("node1", "nowhere")] == [403, 403]
    assert foreign.delete(f"/servers/{uuid}/migrations/{listed['id']}").status == 404
    assert manager.at("2.24").delete(f"/servers/{uuid}/migrations/{listed['id']}").status == 202
    slow.check()


def test_a_second_live_migration_from_a_host_is_queued_until_the_first_is_over(slow: Control) -> None:
    zone = {"client": slow.admin, "availability_zone": "nova:node1"}
    first, second, third = (slow.boot(**zone)["id"] for _ in range(3))
    go(slow, first, LIVE)
    wait_until(lambda: _status(slow, first) == "running", "the first is copied")
    number = migrations(slow, f"?instance_uuid={first}")[0]["id"]
    for uuid in (second, third):
        go(slow, uuid, LIVE)
        wait_until(lambda uuid=uuid: _status(slow, uuid) == "queued", "it waits for its turn")  # type: ignore[misc]
    assert server(slow, second)["status"] == "MIGRATING"
    waiting = migrations(slow, f"?instance_uuid={second}")[0]["id"]
    path = f"/servers/{second}/migrations/{waiting}"
    refused(slow.admin.post(f"{path}/action", {"force_complete": None}), 400)
    old = Client(slow.process.application, version="2.64")
    assert "is queued" in refused(old.delete(path), 400)
    assert Client(slow.process.application, version="2.65").delete(path).status == 202
    wait_until(lambda: _status(slow, second) is None, "it is aborted although the first still runs")
    assert migrations(slow, f"?instance_uuid={second}")[0]["status"] == "cancelled"
    assert (_status(slow, first), _status(slow, third)) == ("running", "queued")
    assert slow.admin.delete(f"/servers/{first}/migrations/{number}").status == 202
    wait_until(lambda: _status(slow, third) == "running", "the next one has its turn")
    last = migrations(slow, f"?instance_uuid={third}")[0]["id"]
    assert slow.admin.post(f"/servers/{third}/migrations/{last}/action", {"force_complete": None}).status == 202
    slow.settle()
    slow.check()


def _status(control: Control, uuid: str) -> str | None:
    found = control.admin.get(f"/servers/{uuid}/migrations").body["migrations"]
    return found[0]["status"] if found else None
