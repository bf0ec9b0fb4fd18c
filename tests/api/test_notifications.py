# SPDX-License-Identifier: Apache-2.0
"""What other services are told of each action: which events, in which order, from whom, with what in them."""

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from kilonova.cli.core import Parts
from kilonova.db import tables as t
from kilonova.errors import DriverError
from kilonova.model.audit_periods import AuditPeriods, Period
from kilonova.notifications.message import Format, Message
from kilonova.notifications.usage_audit import UsageAudit
from support.api_client import Client
from support.control import IMAGE, Control, start_control
from support.glance_stand_in import GlanceStandIn, image_cloud
from support.recorded_notifications import RecordingSink, data
from support.waiting import wait_until

_HOSTS = """
images: [{name: cirros}]
hosts:
  - {name: node1, vcpus: 16, memory_mib: 16384}
  - {name: node2, vcpus: 16, memory_mib: 16384}
  - {name: node3, vcpus: 16, memory_mib: 8192, live_migration_s: 60}
  - {name: node4, vcpus: 16, memory_mib: 8192, live_migration_s: 60}
"""
_MORE = """
[DEFAULT]
reclaim_instance_interval = 0
shelved_offload_time = -1
[notifications]
notification_format = both
notify_on_state_change = vm_and_task_state
"""
SECRET = "correct-horse-battery"
USER_DATA = "I2Nsb3VkLWNvbmZpZwpwYXNzd29yZDogY29ycmVjdC1ob3JzZS1iYXR0ZXJ5"


@dataclass
class World:
    control: Control
    sink: RecordingSink
    glance: GlanceStandIn
    seen: int = 0

    def settle(self) -> None:
        self.control.settle()
        dispatcher = self.control.process.core.notifying.dispatcher
        assert dispatcher is not None
        # What ends a workflow is told after the commit, before it is forgotten.
        wait_until(lambda: not self.control.process.conductor.runner.known, "everything told")
        wait_until(lambda: dispatcher.is_idle, "notifications sent")

    def mark(self) -> None:
        self.settle()
        self.seen = len(self.sink.messages)

    def new(self, wanted: Format = Format.VERSIONED) -> list[Message]:
        """What was sent since the last mark, without updates and the scheduler's."""
        self.settle()
        return [each for each in self.sink.of(wanted, self.seen) if _is_action(each)]

    def lines(self, wanted: Format = Format.VERSIONED) -> list[str]:
        """The same, as event and publisher; HERE is this machine."""
        here = os.uname().nodename
        return [f"{each.event_type} {each.publisher.replace(here, 'HERE')}" for each in self.new(wanted)]

    def act(self, server: dict[str, Any], **action: Any) -> None:
        answer = self.control.admin.post(f"/servers/{server['id']}/action", action)
        assert answer.status in {200, 202, 204}, answer.body
        self.settle()


def _is_action(message: Message) -> bool:
    event = message.event_type
    return not event.endswith("instance.update") and not event.startswith("scheduler.")


@pytest.fixture(scope="module")
def world(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("notifications")
    (folder / "kilonova.db").write_bytes(sqlite_template.read_bytes())
    sink = RecordingSink()
    with image_cloud({IMAGE: os.urandom(1000)}) as cloud:
        control = start_control(folder, parts=Parts(sinks=[sink]), scenario=_HOSTS, more=cloud.options + _MORE)
        cloud.application = control.process.application
        control.add_flavor()
        control.add_flavor("2", ram=1024, vcpus=2, disk=2)
        started = World(control, sink, cloud.glance)
        yield started
        control.check()
        control.process.close()


@pytest.fixture
def server(world: World) -> Iterator[dict[str, Any]]:
    made = world.control.boot(availability_zone="nova:node1", client=world.control.admin)
    world.mark()
    yield made
    world.control.admin.delete(f"/servers/{made['id']}")
    world.settle()


def here(action: str, host: str = "node1") -> list[str]:
    return [f"instance.{action}.start nova-compute:{host}", f"instance.{action}.end nova-compute:{host}"]


#: What is done to a server on node1 → what is told of it.
ACTIONS: dict[str, tuple[list[dict[str, Any]], list[str]]] = {
    "stop and start": ([{"os-stop": None}, {"os-start": None}], here("power_off") + here("power_on")),
    "reboot": ([{"reboot": {"type": "SOFT"}}], here("reboot")),
    "hard reboot": ([{"reboot": {"type": "HARD"}}], here("reboot")),
    "pause": ([{"pause": None}, {"unpause": None}], here("pause") + here("unpause")),
    "suspend": ([{"suspend": None}, {"resume": None}], here("suspend") + here("resume")),
    "crash dump": ([{"trigger_crash_dump": None}], here("trigger_crash_dump")),
    "rescue": (
        [{"rescue": {"adminPass": SECRET}}, {"unrescue": None}],
        [here("rescue")[0], "instance.exists nova-compute:node1", here("rescue")[1], *here("unrescue")],
    ),
    "rebuild": (
        [{"rebuild": {"imageRef": IMAGE, "adminPass": SECRET}}],
        ["instance.rebuild_scheduled nova-conductor:HERE", "instance.exists nova-compute:node1", *here("rebuild")],
    ),
    "snapshot": ([{"createImage": {"name": "mine"}}], here("snapshot")),
    "backup": ([{"createBackup": {"name": "b", "backup_type": "daily", "rotation": 1}}], here("snapshot")),
    "lock": (
        [{"lock": {"locked_reason": "mine"}}, {"unlock": None}],
        ["instance.lock nova-api:HERE", "instance.unlock nova-api:HERE"],
    ),
    "shelve and unshelve": (
        [{"shelve": None}, {"shelveOffload": None}, {"unshelve": {"host": "node2"}}],
        ["instance.exists nova-compute:node1", *here("shelve"), *here("shelve_offload"), *here("unshelve", "node2")],
    ),
    "unshelve where it is": (
        [{"shelve": None}, {"unshelve": None}],
        ["instance.exists nova-compute:node1", *here("shelve"), *here("power_on")],
    ),
    "resize and confirm": (
        [{"migrate": {"host": "node2"}}, {"confirmResize": None}],
        [
            "instance.exists nova-compute:node1",
            *here("resize_prep", "node2"),
            *here("resize"),
            *here("resize_finish", "node2"),
            *here("resize_confirm"),
        ],
    ),
    "resize and revert": (
        [{"migrate": {"host": "node2"}}, {"revertResize": None}],
        [
            "instance.exists nova-compute:node1",
            *here("resize_prep", "node2"),
            *here("resize"),
            *here("resize_finish", "node2"),
            "instance.exists nova-compute:node2",
            *here("resize_revert"),
        ],
    ),
    "live migration": (
        [{"os-migrateLive": {"host": "node2", "block_migration": "auto"}}],
        [
            *here("live_migration_pre", "node2"),
            "instance.live_migration_post.start nova-compute:node1",
            *here("live_migration_post_dest", "node2"),
            "instance.live_migration_post.end nova-compute:node1",
        ],
    ),
}


@pytest.mark.parametrize("what", ACTIONS)
def test_each_action_is_told_in_order_by_who_does_it(world: World, server: dict[str, Any], what: str) -> None:
    actions, expected = ACTIONS[what]
    for action in actions:
        world.act(server, **action)
    assert world.lines() == expected
    for message in world.new():
        assert data(message)["uuid"] == server["id"], message.event_type
        assert not message.is_error


def test_a_server_is_born_and_dies(world: World) -> None:
    world.mark()
    server = world.control.boot(
        world.control.admin,
        name="web",
        availability_zone="nova:node2",
        adminPass=SECRET,
        user_data=USER_DATA,
        tags=["x"],
    )
    assert world.lines() == here("create", "node2")
    assert [data(each)["state"] for each in world.new()] == ["building", "active"]
    assert [data(each)["task_state"] for each in world.new()] == ["spawning", None]
    end = data(world.new()[1])
    assert (end["host"], end["power_state"], end["fault"]) == ("node2", "running", None)
    assert (end["tags"], end["instance_name"], end["image_uuid"]) == (
        ["x"],
        server["OS-EXT-SRV-ATTR:instance_name"],
        IMAGE,
    )
    assert end["flavor"]["nova_object.name"] == "FlavorPayload"
    assert (end["request_id"], end["action_initiator_user"]) == (world.new()[1].who.request_id, "admin")  # type: ignore[union-attr]
    assert end["launched_at"].endswith("Z")
    assert world.lines(Format.UNVERSIONED) == [
        "compute.instance.create.start compute.node2",
        "compute.instance.create.end compute.node2",
    ]
    (_, older) = world.new(Format.UNVERSIONED)
    assert (older.payload["instance_id"], older.payload["message"]) == (server["id"], "Success")
    assert older.payload["image_ref_url"].endswith(f"/images/{IMAGE}")
    world.mark()
    assert world.control.admin.delete(f"/servers/{server['id']}").status == 204
    assert world.lines() == [
        *(f"instance.{each}.start nova-compute:node2" for each in ("delete", "shutdown")),
        *(f"instance.{each}.end nova-compute:node2" for each in ("shutdown", "delete")),
    ]
    assert [data(each)["state"] for each in world.new()] == ["active", "active", "active", "deleted"]
    assert {data(each)["host"] for each in world.new()} == {"node2"}
    assert data(world.new()[3])["terminated_at"] is not None


def test_the_scheduler_tells_what_it_is_asked_and_when_it_has_found_a_host(world: World) -> None:
    world.mark()
    answer = world.control.ask(min_count=2, max_count=2, hints={"query": '["=", 1, 1]'})
    world.settle()
    told = [each for each in world.sink.of(Format.VERSIONED, world.seen) if each.event_type.startswith("scheduler.")]
    events = ["scheduler.select_destinations.start", "scheduler.select_destinations.end"]
    assert [each.event_type for each in told] == events
    asked = data(told[0])
    assert (asked["num_instances"], asked["scheduler_hints"], asked["image"]["nova_object.data"]["id"]) == (
        2,
        {"query": ['["=", 1, 1]']},
        IMAGE,
    )
    assert told[0].publisher == f"nova-scheduler:{os.uname().nodename}"
    for each in world.control.admin.get("/servers?all_tenants=1").body["servers"]:
        world.control.admin.delete(f"/servers/{each['id']}")
    assert answer.status == 202


def test_a_build_for_which_there_is_no_host(world: World) -> None:
    world.mark()
    world.control.add_flavor("9", ram=10**6)
    server = world.control.boot(flavorRef="9")
    assert server["status"] == "ERROR"
    assert world.lines()[-1:] == ["compute_task.build_instances.error nova-conductor:HERE"]
    message = world.new()[-1]
    said = data(message)
    assert (message.is_error, said["instance_uuid"], said["state"]) == (True, server["id"], "error")
    reason = said["reason"]["nova_object.data"]
    assert (reason["exception"], reason["exception_message"]) == ("NoValidHost", server["fault"]["message"])
    (older,) = [each for each in world.new(Format.UNVERSIONED) if each.event_type == "compute_task.build_instances"]
    assert (older.payload["state"], older.payload["method"]) == ("error", "build_instances")
    world.mark()
    world.control.admin.delete(f"/servers/{server['id']}")
    assert world.lines() == [f"instance.{each} nova-api:HERE" for each in ("delete.start", "delete.end")]


def test_a_big_request_for_which_there_is_no_room(world: World) -> None:
    world.control.add_flavor("8", ram=16384, vcpus=16, disk=1)
    world.mark()
    assert world.control.ask(min_count=120, max_count=120, flavorRef="8").status == 202
    told = world.new()
    assert {each.event_type for each in told} == {"compute_task.build_instances.error"}
    assert len({data(each)["instance_uuid"] for each in told}) == len(told) == 120
    assert data(told[0])["reason"]["nova_object.data"]["exception"] == "NoValidHost"
    with world.control.process.database.read() as connection:
        in_error = sa.select(t.instances.c.uuid).where(t.instances.c.vm_state == "error", ~t.instances.c.deleted)
        uuids = list(connection.execute(in_error).scalars())
    for uuid in uuids:
        world.control.admin.delete(f"/servers/{uuid}")


def _failing(world: World, monkeypatch: pytest.MonkeyPatch, method: str, *hosts: str) -> None:
    def fail(*_: object, **__: object) -> None:
        raise DriverError("The disk is on fire.")

    for agent in world.control.process.core.agents:
        if agent.host in hosts:
            monkeypatch.setattr(agent.driver, method, fail)


def test_a_build_that_fails_on_its_host(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.mark()
    _failing(world, monkeypatch, "spawn", "node1")
    server = world.control.boot(world.control.admin, availability_zone="nova:node1")
    assert server["status"] == "ERROR"
    assert world.lines() == [
        "instance.create.start nova-compute:node1",
        "instance.create.error nova-compute:node1",
        "compute.exception nova-compute:node1",
        "compute_task.build_instances.error nova-conductor:HERE",
    ]
    _, error, exception, _ = world.new()
    fault = data(error)["fault"]["nova_object.data"]
    assert error.is_error
    assert (fault["exception"], fault["function_name"]) == ("DriverError", "spawn")
    assert "disk is on fire" in fault["exception_message"]
    assert data(exception) == fault
    older = {each.event_type: each.payload for each in world.new(Format.UNVERSIONED)}
    assert "disk is on fire" in older["compute.instance.create.error"]["message"]
    assert older["spawn"]["args"] == {"instance": {"uuid": server["id"]}}
    world.control.admin.delete(f"/servers/{server['id']}")


def test_a_reboot_that_fails(world: World, server: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    world.act(server, **{"os-stop": None})
    world.mark()
    _failing(world, monkeypatch, "hard_reboot", "node1")
    world.act(server, reboot={"type": "HARD"})
    assert world.lines() == [
        "instance.reboot.start nova-compute:node1",
        "compute.exception nova-compute:node1",
        "instance.reboot.error nova-compute:node1",
    ]
    assert data(world.new()[-1])["fault"]["nova_object.data"]["function_name"] == "act"


def test_a_live_migration_that_is_ended_sooner(world: World) -> None:
    for verb, tells in (("abort", "live_migration_abort"), ("force", "live_migration_force_complete")):
        server = world.control.boot(world.control.admin, availability_zone="nova:node3")
        world.mark()
        body = {"os-migrateLive": {"host": "node4", "block_migration": "auto"}}
        assert world.control.admin.post(f"/servers/{server['id']}/action", body).status == 202
        migrations: Callable[[], list[dict[str, Any]]] = lambda: world.control.admin.get(  # noqa: E731
            f"/servers/{server['id']}/migrations"  # noqa: B023
        ).body["migrations"]
        wait_until(lambda: migrations() and migrations()[0]["status"] == "running", "copying")  # noqa: B023
        path = f"/servers/{server['id']}/migrations/{migrations()[0]['id']}"
        if verb == "abort":
            assert world.control.admin.delete(path).status == 202
        else:
            assert world.control.admin.post(f"{path}/action", {"force_complete": None}).status == 202
        told = world.lines()
        assert told[:2] == here("live_migration_pre", "node4")
        assert told[2:4] == here(tells, "node3")
        rest = (
            [
                "instance.live_migration_rollback.start nova-compute:node3",
                *here("live_migration_rollback_dest", "node4"),
                "instance.live_migration_rollback.end nova-compute:node3",
            ]
            if verb == "abort"
            else [
                "instance.live_migration_post.start nova-compute:node3",
                *here("live_migration_post_dest", "node4"),
                "instance.live_migration_post.end nova-compute:node3",
            ]
        )
        assert told[4:] == rest
        world.control.admin.delete(f"/servers/{server['id']}")


def test_an_evacuation(world: World) -> None:
    server = world.control.boot(world.control.admin, availability_zone="nova:node1")
    (service,) = world.control.admin.get("/os-services?host=node1&binary=nova-compute").body["services"]
    assert world.control.admin.put(f"/os-services/{service['id']}", {"forced_down": True}).status == 200
    world.mark()
    world.act(server, evacuate={"host": "node2"})
    assert world.lines() == [
        "instance.evacuate nova-api:HERE",
        "instance.rebuild_scheduled nova-conductor:HERE",
        *here("rebuild", "node2"),
    ]
    assert world.control.admin.put(f"/os-services/{service['id']}", {"forced_down": False}).status in {200, 400}
    world.control.admin.delete(f"/servers/{server['id']}")


def test_updates_tell_states_and_names(world: World, server: dict[str, Any]) -> None:
    world.act(server, pause=None)
    assert world.control.admin.put(f"/servers/{server['id']}", {"server": {"name": "new"}}).status == 200
    assert world.control.admin.put(f"/servers/{server['id']}/tags", {"tags": ["a"]}).status == 200
    metadata = {"metadata": {"k": "v"}}
    assert world.control.admin.post(f"/servers/{server['id']}/metadata", metadata).status == 200
    world.settle()
    told = [each for each in world.sink.of(Format.VERSIONED, world.seen) if each.event_type == "instance.update"]
    states = [tuple(data(each)["state_update"]["nova_object.data"].values()) for each in told]
    assert states[:2] == [("active", "active", None, "pausing"), ("active", "paused", "pausing", None)]
    assert [data(each)["old_display_name"] for each in told[2:]] == ["vm", None, None]
    assert (data(told[3])["tags"], data(told[4])["metadata"]) == (["a"], {"k": "v"})
    assert {each.publisher for each in told[2:]} == {f"nova-api:{os.uname().nodename}"}
    older = [each for each in world.sink.of(Format.UNVERSIONED, world.seen) if "update" in each.event_type]
    assert (older[1].payload["old_state"], older[1].payload["state"]) == ("active", "paused")
    assert older[2].payload["old_display_name"] == "vm"


def names(world: World, wanted: Format = Format.VERSIONED) -> list[str]:
    return [each.event_type for each in world.new(wanted)]


def pair(event: str) -> list[str]:
    return [f"{event}.start", f"{event}.end"]


def test_aggregates(world: World) -> None:
    admin = world.control.admin
    world.mark()
    number = admin.post("/os-aggregates", {"aggregate": {"name": "rack"}}).body["aggregate"]["id"]
    path = f"/os-aggregates/{number}"
    for action in (
        {"add_host": {"host": "node4"}},
        {"set_metadata": {"metadata": {"ssd": "true", "gone": None}}},
        {"remove_host": {"host": "node4"}},
    ):
        assert admin.post(f"{path}/action", action).status == 200
    assert admin.put(path, {"aggregate": {"name": "row"}}).status == 200
    assert admin.delete(path).status == 200
    told = world.new()
    actions = ("create", "add_host", "update_metadata", "remove_host", "update_prop", "delete")
    assert names(world) == [event for action in actions for event in pair(f"aggregate.{action}")]
    assert [data(each)["id"] for each in told[:2]] == [None, number]
    assert [data(each)["hosts"] for each in told[:8]] == [None, [], [], ["node4"], ["node4"], ["node4"], ["node4"], []]
    assert {each.publisher for each in told} == {f"nova-api:{os.uname().nodename}"}
    older = world.new(Format.UNVERSIONED)
    actions = ("create", "addhost", "updatemetadata", "removehost", "updateprop", "delete")
    assert names(world, Format.UNVERSIONED) == [event for each in actions for event in pair(f"aggregate.{each}")]
    assert [each.payload for each in older[:4]] == [
        {"name": "rack"},
        {"aggregate_id": number, "name": "rack"},
        {"aggregate_id": number, "host_name": "node4"},
        {"aggregate_id": number, "host_name": "node4", "name": "rack"},
    ]
    assert older[4].payload == {"aggregate_id": number, "meta_data": {"ssd": "true", "gone": None}}
    assert [each.publisher for each in older[:2]] == ["aggregate.rack", f"aggregate.{number}"]
    assert world.control.admin.post("/os-aggregates", {"aggregate": {"name": ""}}).status == 400
    assert len(world.new()) == len(told)


def test_images_that_are_fetched_before_anybody_asks(world: World) -> None:
    admin = world.control.admin
    number = admin.post("/os-aggregates", {"aggregate": {"name": "warm"}}).body["aggregate"]["id"]
    for host in ("node1", "node2", "node4"):
        assert admin.post(f"/os-aggregates/{number}/action", {"add_host": {"host": host}}).status == 200
    (service,) = admin.get("/os-services?host=node4&binary=nova-compute").body["services"]
    assert admin.put(f"/os-services/{service['id']}", {"forced_down": True}).status == 200
    world.mark()
    gone = "0c4c4a3a-42d5-4a6a-8a6b-16f1d7a0b7a4"
    body = {"cache": [{"id": IMAGE}, {"id": gone}]}
    assert admin.post(f"/os-aggregates/{number}/images", body).status == 202
    told = world.new()
    events = [f"aggregate.cache_images.{phase}" for phase in ("start", "progress", "progress", "progress", "end")]
    assert names(world) == events
    assert names(world, Format.UNVERSIONED) == []
    steps = {data(each)["host"]: data(each) for each in told[1:4]}
    assert [(data(each)["index"], data(each)["total"]) for each in told[1:4]] == [(1, 3), (2, 3), (3, 3)]
    assert (steps["node1"]["images_cached"], steps["node1"]["images_failed"]) == ([IMAGE], [gone])
    assert (steps["node4"]["images_cached"], steps["node4"]["images_failed"]) == ([], [IMAGE, gone])
    assert [each.publisher.partition(":")[0] for each in told] == ["nova-api", *["nova-conductor"] * 3, "nova-api"]
    assert data(told[4])["hosts"] == ["node1", "node2", "node4"]
    assert admin.put(f"/os-services/{service['id']}", {"forced_down": False}).status == 200


def test_flavors(world: World) -> None:
    admin = world.control.admin
    world.mark()
    made = {"name": "big", "id": "77", "ram": 1, "vcpus": 1, "disk": 1, "os-flavor-access:is_public": False}
    assert admin.post("/flavors", {"flavor": made}).status == 200
    assert admin.post("/flavors/77/os-extra_specs", {"extra_specs": {"hw:cpu_policy": "shared"}}).status == 200
    assert admin.post("/flavors/77/action", {"addTenantAccess": {"tenant": "wonder"}}).status == 200
    assert admin.put("/flavors/77", {"flavor": {"description": "well"}}).status == 200
    assert admin.delete("/flavors/77").status == 202
    told = world.new()
    assert names(world) == ["flavor.create", *["flavor.update"] * 3, "flavor.delete"]
    assert names(world, Format.UNVERSIONED) == []
    assert [data(each)["projects"] for each in told] == [[], [], ["wonder"], ["wonder"], ["wonder"]]
    assert (data(told[3])["description"], data(told[1])["extra_specs"]) == ("well", {"hw:cpu_policy": "shared"})


def test_key_pairs(world: World) -> None:
    admin = world.control.admin
    world.mark()
    older_client = Client(world.control.process.application, version="2.91")
    made = older_client.post("/os-keypairs", {"keypair": {"name": "mine", "type": "ssh"}})
    assert made.status == 201, made.body
    key = made.body["keypair"]["public_key"]
    assert admin.post("/os-keypairs", {"keypair": {"name": "known", "type": "ssh", "public_key": key}}).status == 201
    assert admin.delete("/os-keypairs/mine").status == 204
    assert names(world) == [event for each in ("create", "import", "delete") for event in pair(f"keypair.{each}")]
    assert names(world, Format.UNVERSIONED) == names(world)
    told = data(world.new()[1])
    assert told == {
        "user_id": "admin", "name": "mine", "fingerprint": made.body["keypair"]["fingerprint"], "public_key": key,
        "type": "ssh",
    }  # fmt: skip
    older = world.new(Format.UNVERSIONED)[0]
    assert older.payload == {"tenant_id": "admin", "user_id": "admin", "key_name": "mine"}
    world.mark()
    server = world.control.boot(admin, key_name="known")
    (copy,) = data(world.new()[0])["keypairs"]
    assert copy["nova_object.data"]["public_key"] == key
    admin.delete(f"/servers/{server['id']}")


def test_server_groups(world: World) -> None:
    admin = world.control.admin
    world.mark()
    asked = {"name": "apart", "policy": "anti-affinity", "rules": {"max_server_per_host": 2}}
    group = admin.post("/os-server-groups", {"server_group": asked}).body["server_group"]["id"]
    server = world.control.boot(admin, hints={"group": group})
    assert admin.delete(f"/os-server-groups/{group}").status == 204
    told = [each for each in world.new() if each.event_type.startswith("server_group")]
    assert [each.event_type.partition(".")[2] for each in told] == ["create", "add_member", "delete"]
    assert [data(each)["members"] for each in told] == [[], [server["id"]], [server["id"]]]
    assert (data(told[0])["policy"], data(told[0])["rules"]) == ("anti-affinity", {"max_server_per_host": "2"})
    older = [each for each in world.new(Format.UNVERSIONED) if each.event_type.startswith("servergroup")]
    assert [each.event_type for each in older] == ["servergroup.create", "servergroup.addmember", "servergroup.delete"]
    assert older[1].payload == {"server_group_id": group, "instance_uuids": [server["id"]]}
    admin.delete(f"/servers/{server['id']}")


def test_services(world: World) -> None:
    new = {data(each)["host"]: each for each in world.sink.of(Format.VERSIONED) if each.event_type == "service.create"}
    assert {"node1", "node4", os.uname().nodename} <= new.keys()
    assert new["node1"].publisher == "nova-compute:node1"
    (service,) = world.control.admin.get("/os-services?host=node4&binary=nova-compute").body["services"]
    world.mark()
    for status in ("disabled", "enabled"):
        reason = {"disabled_reason": "hot"} if status == "disabled" else {}
        assert world.control.admin.put(f"/os-services/{service['id']}", {"status": status, **reason}).status == 200
    told = world.new()
    assert [(each.event_type, data(each)["disabled"]) for each in told] == [
        ("service.update", True),
        ("service.update", False),
    ]
    assert (data(told[0])["disabled_reason"], data(told[0])["topic"]) == ("hot", "compute")


def test_after_a_period_every_server_that_was_there_is_told_once(world: World) -> None:
    admin, database = world.control.admin, world.control.process.database
    there = world.control.boot(admin, min_count=3, max_count=3)
    gone = world.control.boot(admin)
    admin.delete(f"/servers/{gone['id']}")
    world.mark()
    now = database.clock.now()
    hour = timedelta(hours=1)
    ended = Period(now - hour, now + hour)

    class Periods(AuditPeriods):
        def last_completed(self, now: datetime) -> Period:
            return ended

    announcer = world.control.process.core.notifying.announcer
    audits = [UsageAudit(database, announcer, Periods(), lambda: True, together=2) for _ in range(2)]
    told = [audit.look() for audit in audits]
    with database.read() as connection:
        everything = sa.select(t.instances.c.uuid).where(t.instances.c.launched_at.is_not(None))
        launched = set(connection.execute(everything).scalars())
    assert {there["id"], gone["id"]} < launched
    exists = [data(each)["uuid"] for each in world.new() if each.event_type == "instance.exists"]
    assert (sorted(exists), told) == (sorted(launched), [len(launched), 0])
    assert audits[0].look() == 0
    older = [each for each in world.new(Format.UNVERSIONED) if each.event_type == "compute.instance.exists"]
    assert older[0].payload["audit_period_beginning"] == f"{ended.begin:%Y-%m-%d %H:%M:%S}+00:00"
    idle = UsageAudit(database, announcer, Periods(), lambda: False)
    assert idle.look() == 0
    for each in admin.get("/servers").body["servers"]:
        admin.delete(f"/servers/{each['id']}")


def test_nothing_secret_is_ever_sent(world: World) -> None:
    world.settle()
    assert world.sink.messages
    everything = json.dumps([[each.event_type, each.payload] for each in world.sink.messages], default=str)
    for secret in (SECRET, USER_DATA, "correct-horse", "token"):
        assert secret not in everything
