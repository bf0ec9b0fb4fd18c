# SPDX-License-Identifier: Apache-2.0
"""Shelve, shelveOffload and unshelve, with an image service that a test holds in its hand."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from kilonova.db import instances
from support.api_client import Client
from support.control import IMAGE, Control, start_control
from support.glance_stand_in import GlanceStandIn, image_cloud
from support.waiting import wait_until

DATA = os.urandom(100_000)
HERE = "[DEFAULT]\nshelved_offload_time = -1\n"
Started = Callable[..., tuple[Control, GlanceStandIn]]


@contextmanager
def shelving(folder: Path, template: Path, more: str) -> Iterator[tuple[Control, GlanceStandIn]]:
    (folder / "kilonova.db").write_bytes(template.read_bytes())
    with image_cloud({IMAGE: DATA}) as cloud:
        control = start_control(folder, more=cloud.options + more)
        cloud.application = control.process.application
        control.add_flavor()
        yield control, cloud.glance
        control.process.close()


@pytest.fixture
def started(tmp_path: Path, sqlite_template: Path) -> Iterator[Started]:
    with ExitStack() as stack:
        yield lambda more="": stack.enter_context(shelving(tmp_path, sqlite_template, more))


def act(control: Control, server: dict[str, Any], client: Client | None = None, **action: Any) -> Any:
    answer = (client or control.member).post(f"/servers/{server['id']}/action", action)
    control.settle()
    return answer


def show(control: Control, server: dict[str, Any]) -> dict[str, Any]:
    shown: dict[str, Any] = control.admin.get(f"/servers/{server['id']}").body["server"]
    return shown


def own_images(glance: GlanceStandIn) -> list[str]:
    return [image_id for image_id in glance.images if image_id != IMAGE]


def used(control: Control) -> int:
    """Return the number of vCPUs in use on all hosts."""
    providers = control.placement.get("/resource_providers").body["resource_providers"]
    answers = [control.placement.get(f"/resource_providers/{each['uuid']}/usages").body for each in providers]
    return sum(answer["usages"].get("VCPU", 0) for answer in answers)


def events(control: Control, server: dict[str, Any]) -> list[Any]:
    path = f"/servers/{server['id']}/os-instance-actions"
    found = []
    for action in control.admin.get(path).body["instanceActions"]:
        whole = control.admin.get(f"{path}/{action['request_id']}").body["instanceAction"]
        found.append((action["action"], action["message"], sorted(event["event"] for event in whole["events"])))
    return found


def test_a_shelved_server_leaves_its_host_and_comes_back_from_its_image(started: Started) -> None:
    control, glance = started()
    server = control.boot(name="web")
    assert (act(control, server, shelve=None).status, used(control)) == (202, 0)
    shelved = show(control, server)
    assert (shelved["status"], shelved["OS-EXT-SRV-ATTR:host"]) == ("SHELVED_OFFLOADED", None)
    assert (shelved["OS-EXT-STS:power_state"], shelved["OS-EXT-STS:task_state"]) == (4, None)
    (image_id,) = own_images(glance)
    assert (glance.properties[image_id]["name"], glance.images[image_id]) == ("web-shelved", DATA)
    control.check()
    again = act(control, server, shelve=None)
    assert (again.status, "vm_state shelved_offloaded" in str(again.body)) == (409, True)
    assert act(control, server, unshelve=None).status == 202
    back = show(control, server)
    assert (back["status"], back["image"]["id"], used(control)) == ("ACTIVE", IMAGE, 1)
    wait_until(lambda: own_images(glance) == [], "the image of the shelved server goes")
    assert glance.reads == [IMAGE, image_id]
    assert events(control, server)[:2] == [
        ("unshelve", None, ["compute_unshelve_instance", "conductor_unshelve_instance"]),
        ("shelve", None, ["compute_shelve_instance", "compute_shelve_offload_instance"]),
    ]
    assert act(control, server, createImage={"name": "once more"}).status == 202
    assert [glance.images[each] for each in own_images(glance)] == [DATA]
    control.check()


def test_a_shelved_server_that_stays_holds_its_place_until_it_is_offloaded(started: Started) -> None:
    control, glance = started(HERE)
    server = control.boot()
    assert act(control, server, shelve=None).status == 202
    shelved = show(control, server)
    assert (shelved["status"], used(control)) == ("SHELVED", 1)
    assert shelved["OS-EXT-SRV-ATTR:host"] == server["OS-EXT-SRV-ATTR:host"]
    for asked in ({"availability_zone": "nova"}, {"host": "node1"}):
        assert act(control, server, control.admin, unshelve=asked).status == 409
    assert act(control, server, unshelve=None).status == 202
    assert (show(control, server)["status"], used(control)) == ("ACTIVE", 1)
    wait_until(lambda: own_images(glance) == [], "the image of the shelved server goes")
    assert act(control, server, pause=None).status == 202
    assert act(control, server, shelve=None).status == 202
    assert act(control, server, shelveOffload=None).status == 403
    assert act(control, server, control.admin, shelveOffload=None).status == 202
    assert (show(control, server)["status"], used(control)) == ("SHELVED_OFFLOADED", 0)
    assert control.member.delete(f"/servers/{server['id']}").status == 204
    control.settle()
    wait_until(lambda: own_images(glance) == [], "the image of the deleted server goes")
    assert control.check() == {}


def test_servers_that_were_shelved_long_ago_are_offloaded(started: Started) -> None:
    control, _ = started("[DEFAULT]\nshelved_offload_time = 600\n")
    old, young = control.boot(), control.boot()
    for server in (old, young):
        assert act(control, server, shelve=None).status == 202
    offload_due = control.process.conductor.operations.shelving.offload_due
    assert offload_due(timedelta(seconds=600)) == 0

    def age(tx: Any) -> None:
        instances.change(tx, old["id"], shelved_at=tx.now - timedelta(seconds=601))

    control.process.database.write(age)
    assert offload_due(timedelta(seconds=600)) == 1
    control.settle()
    assert [show(control, each)["status"] for each in (old, young)] == ["SHELVED_OFFLOADED", "SHELVED"]
    control.check()


def zone(control: Control, name: str, host: str) -> None:
    made = control.admin.post("/os-aggregates", {"aggregate": {"name": name, "availability_zone": name}})
    path = f"/os-aggregates/{made.body['aggregate']['id']}/action"
    assert control.admin.post(path, {"add_host": {"host": host}}).status == 200


def test_where_a_server_comes_back(started: Started) -> None:
    """To its zone, to another one (2.77), to a host or without a zone (2.91); the zone then holds."""
    control, _ = started()
    zone(control, "east", "node1")
    zone(control, "west", "node2")
    server = control.boot(availability_zone="east")

    def unshelved(asked: Any, client: Client | None = None, version: str = "2.100") -> tuple[int, str]:
        if show(control, server)["status"] == "ACTIVE":
            assert act(control, server, shelve=None).status == 202
        client = client or control.member
        answer = act(control, server, Client(client.app, client.token, version), unshelve=asked)
        return answer.status, show(control, server)["OS-EXT-AZ:availability_zone"]

    assert unshelved({"availability_zone": "west"}, version="2.76") == (202, "east")  # which passes it over
    assert unshelved({"host": "node2"}, control.admin, "2.90")[0] == 400
    assert unshelved({}, version="2.90")[0] == 400
    assert unshelved({"availability_zone": "north"})[0] == 400
    assert unshelved({"host": "node9"}, control.admin)[0] == 400
    assert unshelved({"host": "node2"})[0] == 403
    assert unshelved({"host": "node2"}, control.admin)[0] == 409  # which is not in the zone of the server
    assert unshelved(None) == (202, "east")
    assert unshelved({"availability_zone": "west"}, version="2.77") == (202, "west")
    assert unshelved(None) == (202, "west")
    assert unshelved({"availability_zone": "west", "host": "node1"}, control.admin)[0] == 409
    assert unshelved({"availability_zone": "east", "host": "node1"}, control.admin) == (202, "east")
    assert unshelved({"availability_zone": None, "host": "node2"}, control.admin) == (202, "west")
    assert unshelved({"host": "node1"}, control.admin) == (202, "east")
    control.check()


def test_without_room_or_image_a_server_stays_shelved(started: Started) -> None:
    control, glance = started()
    control.add_flavor("2", vcpus=8, ram=15000)
    server = control.boot()
    assert act(control, server, shelve=None).status == 202
    full = [control.boot(flavorRef="2") for _ in range(2)]
    while full[-1]["status"] == "ACTIVE":
        full.append(control.boot())
    assert act(control, server, unshelve=None).status == 202
    after = show(control, server)
    assert (after["status"], after["OS-EXT-STS:task_state"]) == ("SHELVED_OFFLOADED", None)
    assert events(control, server)[0] == ("unshelve", "Error", ["conductor_unshelve_instance"])
    for each in full:
        assert control.admin.delete(f"/servers/{each['id']}").status == 204
    control.settle()
    (image_id,) = own_images(glance)
    data = glance.images.pop(image_id)
    assert act(control, server, unshelve=None).status == 202
    assert (show(control, server)["status"], events(control, server)[0][:2]) == (
        "SHELVED_OFFLOADED", ("unshelve", "Error"),
    )  # fmt: skip
    glance.images[image_id] = data
    assert act(control, server, unshelve=None).status == 202
    assert show(control, server)["status"] == "ACTIVE"
    control.check()


def test_a_shelve_that_fails_leaves_the_server_as_it_was(started: Started) -> None:
    control, glance = started()
    server = control.boot()
    glance.refuses = 403
    assert act(control, server, shelve=None).status == 403
    glance.refuses = None
    for agent in control.process.core.agents:
        agent.driver.hypervisor.failures_left["snapshot"] = 1  # type: ignore[attr-defined]
    assert act(control, server, shelve=None).status == 202
    after = show(control, server)
    assert (after["status"], after["OS-EXT-STS:task_state"], after["OS-EXT-STS:power_state"]) == ("ACTIVE", None, 1)
    wait_until(lambda: own_images(glance) == [], "the image of the failed shelve goes")
    assert events(control, server)[0] == ("shelve", "Error", ["compute_shelve_instance"])
    control.check()
