# SPDX-License-Identifier: Apache-2.0
"""What other services are told of actions on servers: which events, in which order, from whom, with what in them."""

import json
import os
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from kilonova.db import instance_networks
from kilonova.db.core import tables as t
from kilonova.model.audit_periods import AuditPeriods, Period
from kilonova.notifications.message import Format
from kilonova.notifications.usage_audit import UsageAudit
from support.control import IMAGE
from support.interfaces import interface
from support.notified_cloud import SECRET, USER_DATA, World, here, names, pair
from support.recorded_notifications import data
from support.waiting import wait_until

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
def test_each_action_is_told_in_order_by_who_does_it(
    notified: World, notified_server: dict[str, Any], what: str
) -> None:
    actions, expected = ACTIONS[what]
    for action in actions:
        notified.act(notified_server, **action)
    assert notified.lines() == expected
    for message in notified.new():
        assert data(message)["uuid"] == notified_server["id"], message.event_type
        assert not message.is_error


def test_a_server_is_born_and_dies(notified: World) -> None:
    notified.mark()
    server = notified.control.boot(
        notified.control.admin,
        name="web",
        availability_zone="nova:node2",
        adminPass=SECRET,
        user_data=USER_DATA,
        tags=["x"],
    )
    assert notified.lines() == here("create", "node2")
    assert [data(each)["state"] for each in notified.new()] == ["building", "active"]
    assert [data(each)["task_state"] for each in notified.new()] == ["spawning", None]
    end = data(notified.new()[1])
    assert (end["host"], end["power_state"], end["fault"]) == ("node2", "running", None)
    assert (end["tags"], end["instance_name"], end["image_uuid"]) == (
        ["x"],
        server["OS-EXT-SRV-ATTR:instance_name"],
        IMAGE,
    )
    assert end["flavor"]["nova_object.name"] == "FlavorPayload"
    assert (end["request_id"], end["action_initiator_user"]) == (notified.new()[1].who.request_id, "admin")  # type: ignore[union-attr]
    assert end["launched_at"].endswith("Z")
    assert notified.lines(Format.UNVERSIONED) == [
        "compute.instance.create.start compute.node2",
        "compute.instance.create.end compute.node2",
    ]
    (_, older) = notified.new(Format.UNVERSIONED)
    assert (older.payload["instance_id"], older.payload["message"]) == (server["id"], "Success")
    assert older.payload["image_ref_url"].endswith(f"/images/{IMAGE}")
    notified.mark()
    assert notified.control.admin.delete(f"/servers/{server['id']}").status == 204
    assert notified.lines() == [
        *(f"instance.{each}.start nova-compute:node2" for each in ("delete", "shutdown")),
        *(f"instance.{each}.end nova-compute:node2" for each in ("shutdown", "delete")),
    ]
    assert [data(each)["state"] for each in notified.new()] == ["active", "active", "active", "deleted"]
    assert {data(each)["host"] for each in notified.new()} == {"node2"}
    assert data(notified.new()[3])["terminated_at"] is not None


def test_the_scheduler_tells_what_it_is_asked_and_when_it_has_found_a_host(notified: World) -> None:
    notified.mark()
    answer = notified.control.ask(min_count=2, max_count=2, hints={"query": '["=", 1, 1]'})
    notified.settle()
    told = [
        each for each in notified.sink.of(Format.VERSIONED, notified.seen) if each.event_type.startswith("scheduler.")
    ]
    events = ["scheduler.select_destinations.start", "scheduler.select_destinations.end"]
    assert [each.event_type for each in told] == events
    asked = data(told[0])
    assert (asked["num_instances"], asked["scheduler_hints"], asked["image"]["nova_object.data"]["id"]) == (
        2,
        {"query": ['["=", 1, 1]']},
        IMAGE,
    )
    assert told[0].publisher == f"nova-scheduler:{os.uname().nodename}"
    for each in notified.control.admin.get("/servers?all_tenants=1").body["servers"]:
        notified.control.admin.delete(f"/servers/{each['id']}")
    assert answer.status == 202


def test_a_forced_delete_is_called_so_where_no_host_has_a_part_in_it(
    notified: World, notified_server: dict[str, Any]
) -> None:
    """Unversioned, as in Nova: a shelved server that has left its host, or one in error that never had one."""
    notified.act(notified_server, forceDelete=None)
    assert names(notified, Format.UNVERSIONED) == [
        f"compute.instance.{each}" for each in ("delete.start", "shutdown.start", "shutdown.end", "delete.end")
    ]
    notified.control.add_flavor("7", ram=10**6)
    for delete, event in (("forceDelete", "force_delete"), (None, "delete")):
        shelved = notified.control.boot(notified.control.admin)
        notified.act(shelved, shelve=None)
        notified.act(shelved, shelveOffload=None)
        in_error = notified.control.boot(notified.control.admin, flavorRef="7")
        for each in (shelved, in_error):
            notified.mark()
            if delete is None:
                assert notified.control.admin.delete(f"/servers/{each['id']}").status == 204
            else:
                notified.act(each, **{delete: None})
            here_told = [f"compute.instance.{event}.{phase} compute.HERE" for phase in ("start", "end")]
            assert notified.lines(Format.UNVERSIONED) == here_told
            assert names(notified) == pair("instance.delete")


def test_a_live_migration_that_is_ended_sooner(notified: World) -> None:
    for verb, tells in (("abort", "live_migration_abort"), ("force", "live_migration_force_complete")):
        server = notified.control.boot(notified.control.admin, availability_zone="nova:node3")
        notified.mark()
        body = {"os-migrateLive": {"host": "node4", "block_migration": "auto"}}
        assert notified.control.admin.post(f"/servers/{server['id']}/action", body).status == 202
        migrations: Callable[[], list[dict[str, Any]]] = lambda: notified.control.admin.get(  # noqa: E731
            f"/servers/{server['id']}/migrations"  # noqa: B023
        ).body["migrations"]
        wait_until(lambda: migrations() and migrations()[0]["status"] == "running", "copying")  # noqa: B023
        path = f"/servers/{server['id']}/migrations/{migrations()[0]['id']}"
        if verb == "abort":
            assert notified.control.admin.delete(path).status == 202
        else:
            assert notified.control.admin.post(f"{path}/action", {"force_complete": None}).status == 202
        told = notified.lines()
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
        notified.control.admin.delete(f"/servers/{server['id']}")


def test_an_evacuation(notified: World) -> None:
    server = notified.control.boot(notified.control.admin, availability_zone="nova:node1")
    (service,) = notified.control.admin.get("/os-services?host=node1&binary=nova-compute").body["services"]
    assert notified.control.admin.put(f"/os-services/{service['id']}", {"forced_down": True}).status == 200
    notified.mark()
    notified.act(server, evacuate={"host": "node2"})
    assert notified.lines() == [
        "instance.evacuate nova-api:HERE",
        "instance.rebuild_scheduled nova-conductor:HERE",
        *here("rebuild", "node2"),
    ]
    assert notified.control.admin.put(f"/os-services/{service['id']}", {"forced_down": False}).status in {200, 400}
    notified.control.admin.delete(f"/servers/{server['id']}")


def test_updates_tell_states_and_names(notified: World, notified_server: dict[str, Any]) -> None:
    notified.act(notified_server, pause=None)
    assert notified.control.admin.put(f"/servers/{notified_server['id']}", {"server": {"name": "new"}}).status == 200
    assert notified.control.admin.put(f"/servers/{notified_server['id']}/tags", {"tags": ["a"]}).status == 200
    metadata = {"metadata": {"k": "v"}}
    assert notified.control.admin.post(f"/servers/{notified_server['id']}/metadata", metadata).status == 200
    notified.settle()
    told = [each for each in notified.sink.of(Format.VERSIONED, notified.seen) if each.event_type == "instance.update"]
    states = [tuple(data(each)["state_update"]["nova_object.data"].values()) for each in told]
    assert states[:2] == [("active", "active", None, "pausing"), ("active", "paused", "pausing", None)]
    assert [data(each)["old_display_name"] for each in told[2:]] == ["vm", None, None]
    assert (data(told[3])["tags"], data(told[4])["metadata"]) == (["a"], {"k": "v"})
    assert {each.publisher for each in told[2:]} == {f"nova-api:{os.uname().nodename}"}
    older = [each for each in notified.sink.of(Format.UNVERSIONED, notified.seen) if "update" in each.event_type]
    assert (older[1].payload["old_state"], older[1].payload["state"]) == ("active", "paused")
    assert older[2].payload["old_display_name"] == "vm"


def test_after_a_period_every_server_that_was_there_is_told_once(notified: World) -> None:
    admin, database = notified.control.admin, notified.control.process.database
    there = notified.control.boot(admin, min_count=3, max_count=3)
    gone = notified.control.boot(admin)
    admin.delete(f"/servers/{gone['id']}")
    notified.mark()
    now = database.clock.now()
    hour = timedelta(hours=1)
    ended = Period(now - hour, now + hour)

    class Periods(AuditPeriods):
        def last_completed(self, now: datetime) -> Period:
            return ended

    announcer = notified.control.process.core.notifying.announcer
    audits = [UsageAudit(database, announcer, Periods(), lambda: True, together=2) for _ in range(2)]
    told = [audit.look() for audit in audits]
    with database.read() as connection:
        everything = sa.select(t.instances.c.uuid).where(t.instances.c.launched_at.is_not(None))
        launched = set(connection.execute(everything).scalars())
    assert {there["id"], gone["id"]} < launched
    exists = [data(each)["uuid"] for each in notified.new() if each.event_type == "instance.exists"]
    assert (sorted(exists), told) == (sorted(launched), [len(launched), 0])
    assert audits[0].look() == 0
    older = [each for each in notified.new(Format.UNVERSIONED) if each.event_type == "compute.instance.exists"]
    assert older[0].payload["audit_period_beginning"] == f"{ended.begin:%Y-%m-%d %H:%M:%S}+00:00"
    idle = UsageAudit(database, announcer, Periods(), lambda: False)
    assert idle.look() == 0
    for each in admin.get("/servers").body["servers"]:
        admin.delete(f"/servers/{each['id']}")


def test_nothing_secret_is_ever_sent(notified: World) -> None:
    notified.settle()
    assert notified.sink.messages
    everything = json.dumps([[each.event_type, each.payload] for each in notified.sink.messages], default=str)
    for secret in (SECRET, USER_DATA, "correct-horse", "token"):
        assert secret not in everything


def test_addresses_are_told_by_operations_and_by_the_api(notified: World, notified_server: dict[str, Any]) -> None:
    uuid = notified_server["id"]
    vif = interface("private", "10.0.0.5")
    notified.control.process.database.write(lambda tx: instance_networks.store_info(tx, uuid, (vif,)))
    notified.act(notified_server, pause=None)
    notified.act(notified_server, unpause=None)
    notified.act(notified_server, lock=None)
    notified.act(notified_server, unlock=None)
    for message in notified.new():
        (address,) = data(message)["ip_addresses"]
        assert address["nova_object.data"]["address"] == "10.0.0.5"
    for message in notified.new(Format.UNVERSIONED):
        assert [each["address"] for each in message.payload["fixed_ips"]] == ["10.0.0.5"]
    assert len(notified.new()) == 6
