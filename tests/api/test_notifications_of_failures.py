# SPDX-License-Identifier: Apache-2.0
"""What other services are told of what cannot be done: no host, or a host that fails."""

from typing import Any

import pytest
import sqlalchemy as sa

from kilonova.db.core import tables as t
from kilonova.errors import DriverError
from kilonova.notifications.message import Format
from support.notified_cloud import World
from support.recorded_notifications import data


def test_a_build_for_which_there_is_no_host(notified: World) -> None:
    notified.mark()
    notified.control.add_flavor("9", ram=10**6)
    server = notified.control.boot(flavorRef="9")
    assert server["status"] == "ERROR"
    assert notified.lines()[-1:] == ["compute_task.build_instances.error nova-conductor:HERE"]
    message = notified.new()[-1]
    said = data(message)
    assert (message.is_error, said["instance_uuid"], said["state"]) == (True, server["id"], "error")
    reason = said["reason"]["nova_object.data"]
    assert (reason["exception"], reason["exception_message"]) == ("NoValidHost", server["fault"]["message"])
    (older,) = [each for each in notified.new(Format.UNVERSIONED) if each.event_type == "compute_task.build_instances"]
    assert (older.payload["state"], older.payload["method"]) == ("error", "build_instances")
    notified.mark()
    notified.control.admin.delete(f"/servers/{server['id']}")
    assert notified.lines() == [f"instance.{each} nova-api:HERE" for each in ("delete.start", "delete.end")]


def test_a_big_request_for_which_there_is_no_room(notified: World) -> None:
    notified.control.add_flavor("8", ram=16384, vcpus=16, disk=1)
    notified.mark()
    assert notified.control.ask(min_count=120, max_count=120, flavorRef="8").status == 202
    told = notified.new()
    assert {each.event_type for each in told} == {"compute_task.build_instances.error"}
    assert len({data(each)["instance_uuid"] for each in told}) == len(told) == 120
    assert data(told[0])["reason"]["nova_object.data"]["exception"] == "NoValidHost"
    with notified.control.process.database.read() as connection:
        in_error = sa.select(t.instances.c.uuid).where(t.instances.c.vm_state == "error", ~t.instances.c.deleted)
        uuids = list(connection.execute(in_error).scalars())
    for uuid in uuids:
        notified.control.admin.delete(f"/servers/{uuid}")


def _failing(notified: World, monkeypatch: pytest.MonkeyPatch, method: str, *hosts: str) -> None:
    def fail(*_: object, **__: object) -> None:
        raise DriverError("The disk is on fire.")

    for agent in notified.control.process.core.agents:
        if agent.host in hosts:
            monkeypatch.setattr(agent.driver, method, fail)


def test_a_build_that_fails_on_its_host(notified: World, monkeypatch: pytest.MonkeyPatch) -> None:
    notified.mark()
    _failing(notified, monkeypatch, "spawn", "node1")
    server = notified.control.boot(notified.control.admin, availability_zone="nova:node1")
    assert server["status"] == "ERROR"
    assert notified.lines() == [
        "instance.create.start nova-compute:node1",
        "instance.create.error nova-compute:node1",
        "compute.exception nova-compute:node1",
        "compute_task.build_instances.error nova-conductor:HERE",
    ]
    _, error, exception, _ = notified.new()
    fault = data(error)["fault"]["nova_object.data"]
    assert error.is_error
    assert (fault["exception"], fault["function_name"]) == ("DriverError", "spawn")
    assert "disk is on fire" in fault["exception_message"]
    assert data(exception) == fault
    older = {each.event_type: each.payload for each in notified.new(Format.UNVERSIONED)}
    assert "disk is on fire" in older["compute.instance.create.error"]["message"]
    assert older["spawn"]["args"] == {"instance": {"uuid": server["id"]}}
    notified.control.admin.delete(f"/servers/{server['id']}")


def test_a_reboot_that_fails(notified: World, notified_server: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    notified.act(notified_server, **{"os-stop": None})
    notified.mark()
    _failing(notified, monkeypatch, "hard_reboot", "node1")
    notified.act(notified_server, reboot={"type": "HARD"})
    assert notified.lines() == [
        "instance.reboot.start nova-compute:node1",
        "compute.exception nova-compute:node1",
        "instance.reboot.error nova-compute:node1",
    ]
    assert data(notified.new()[-1])["fault"]["nova_object.data"]["function_name"] == "act"
