# SPDX-License-Identifier: Apache-2.0
"""createImage and createBackup, with an image service that a test holds in its hand."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kilonova.db import instances
from kilonova.model.instance import TaskState
from support.api_client import Client
from support.control import IMAGE, SCENARIO, Control, start_control
from support.glance_stand_in import GlanceStandIn, ImageCloud, image_cloud
from support.waiting import wait_until

DATA = os.urandom(300_000)


@pytest.fixture
def cloud() -> Iterator[ImageCloud]:
    with image_cloud({IMAGE: DATA}) as cloud:
        cloud.glance.properties[IMAGE] = {
            "disk_format": "qcow2", "container_format": "bare", "min_disk": 0, "min_ram": 128,
            "hw_disk_bus": "virtio", "os_distro": "cirros", "cache_in_nova": "true", "img_signature": "abc",
        }  # fmt: skip
        yield cloud


@pytest.fixture
def glance(cloud: ImageCloud) -> GlanceStandIn:
    return cloud.glance


@pytest.fixture
def control(cloud: ImageCloud, tmp_path: Path, sqlite_template: Path) -> Iterator[Control]:
    yield from started(cloud, tmp_path, sqlite_template, SCENARIO)


def started(cloud: ImageCloud, folder: Path, template: Path, scenario: str, more: str = "") -> Iterator[Control]:
    (folder / "kilonova.db").write_bytes(template.read_bytes())
    control = start_control(folder, scenario=scenario, more=f"{cloud.options}{more}")
    cloud.application = control.process.application
    control.add_flavor(disk=3)
    yield control
    control.process.close()


def ask(client: Client, server: dict[str, Any], action: str = "createImage", **asked: Any) -> Any:
    return client.post(f"/servers/{server['id']}/action", {action: {"name": "mine", **asked}})


def show(control: Control, server: dict[str, Any]) -> dict[str, Any]:
    shown: dict[str, Any] = control.admin.get(f"/servers/{server['id']}").body["server"]
    return shown


def own_images(glance: GlanceStandIn) -> list[str]:
    return [image_id for image_id in glance.images if image_id != IMAGE]


def wait_until_only(glance: GlanceStandIn, *image_ids: str) -> None:
    wait_until(lambda: own_images(glance) == list(image_ids), "unwanted images go")


def test_an_operator_chooses_the_format_of_images_of_servers(
    cloud: ImageCloud, tmp_path: Path, sqlite_template: Path
) -> None:
    for control in started(cloud, tmp_path, sqlite_template, SCENARIO, "\n[libvirt]\nsnapshot_image_format = vmdk\n"):
        image_id = ask(control.member, control.boot()).body["image_id"]
        control.settle()
        assert cloud.glance.properties[image_id]["disk_format"] == "vmdk"


def test_an_image_of_a_server_has_its_bytes_and_says_what_it_is(control: Control, glance: GlanceStandIn) -> None:
    server = control.boot()
    answer = ask(control.member, server, metadata={"purpose": "golden", "hw_disk_bus": "scsi"})
    assert (answer.status, list(answer.body)) == (202, ["image_id"])
    image_id = answer.body["image_id"]
    control.settle()
    assert glance.images[image_id] == DATA
    assert glance.properties[image_id] == {
        "id": image_id,
        "name": "mine",
        "owner": "wonder",
        "visibility": "private",
        "disk_format": "qcow2",
        "container_format": "bare",
        "min_ram": 128,
        "min_disk": 3,
        "hw_disk_bus": "scsi",
        "os_distro": "cirros",
        "purpose": "golden",
        "image_type": "snapshot",
        "instance_uuid": server["id"],
        "base_image_ref": IMAGE,
        "user_id": "alice",
    }
    assert glance.tokens == ["alice:wonder"]
    after = show(control, server)
    assert (after["status"], after["OS-EXT-STS:task_state"]) == ("ACTIVE", None)
    action = control.member.get(f"/servers/{server['id']}/os-instance-actions").body["instanceActions"][0]
    assert (action["action"], action["message"]) == ("createImage", None)
    whole = control.admin.get(f"/servers/{server['id']}/os-instance-actions/{action['request_id']}").body
    assert [each["event"] for each in whole["instanceAction"]["events"]] == ["compute_snapshot_instance"]
    control.check()


def test_before_2_45_the_image_is_named_in_a_header(control: Control, glance: GlanceStandIn) -> None:
    server = control.boot()
    old = Client(control.process.application, "alice:wonder", "2.1")
    answer = ask(old, server)
    assert (answer.status, answer.body) == (202, None)
    (image_id,) = own_images(glance)
    assert answer.headers["location"].endswith(f"/images/{image_id}")
    control.settle()


def test_metadata_counts_before_2_39_and_never_names_a_field_of_the_image(
    control: Control, glance: GlanceStandIn
) -> None:
    server = control.boot()
    refused = ask(control.member, server, metadata={"visibility": "public"})
    assert (refused.status, "createImage.metadata.visibility" in str(refused.body)) == (400, True)
    assert control.admin.put("/os-quota-sets/wonder", {"quota_set": {"metadata_items": 1}}).status == 200
    old = Client(control.process.application, "alice:wonder", "2.38")
    assert ask(old, server, metadata={"a": "b", "c": "d"}).status == 403
    assert own_images(glance) == []
    assert ask(control.member, server, metadata={"a": "b", "c": "d"}).status == 202
    control.settle()


def test_what_the_image_service_refuses_leaves_the_server_as_it_was(control: Control, glance: GlanceStandIn) -> None:
    server = control.boot()
    for status, seen in ((403, 403), (413, 403), (400, 400), (409, 409), (500, 503)):
        glance.refuses = status
        assert ask(control.member, server).status == seen
        assert show(control, server)["OS-EXT-STS:task_state"] is None
    glance.refuses = None
    assert ask(control.member, server).status == 202
    control.check()


def test_a_second_request_meanwhile_is_refused_and_makes_no_image(control: Control, glance: GlanceStandIn) -> None:
    server = control.boot()
    set_task(control, server, TaskState.IMAGE_UPLOADING)
    refused = ask(control.member, server)
    assert (refused.status, "task_state image_uploading" in str(refused.body)) == (409, True)
    assert own_images(glance) == []
    set_task(control, server, None)


def set_task(control: Control, server: dict[str, Any], task: TaskState | None) -> None:
    control.process.database.write(lambda tx: instances.change(tx, server["id"], task_state=task))


def test_backups_are_rotated_by_server_and_type(control: Control, glance: GlanceStandIn) -> None:
    server, other = control.boot(), control.boot()

    def backup(server: dict[str, Any], kind: str, rotation: int | str) -> Any:
        answer = ask(control.member, server, "createBackup", backup_type=kind, rotation=rotation)
        assert answer.status == 202
        control.settle()
        return answer.body and answer.body["image_id"]

    kept = [backup(other, "daily", 1), backup(server, "weekly", 1), ask(control.member, server).body["image_id"]]
    control.settle()
    daily = [backup(server, "daily", 2) for _ in range(4)]
    wait_until_only(glance, *kept, *daily[2:])
    assert glance.properties[daily[3]]["image_type"] == "backup"
    assert glance.properties[daily[3]]["backup_type"] == "daily"
    assert backup(server, "daily", 0) is None
    wait_until_only(glance, *kept)
    huge = (10**18, "0" * 30 + "9" * 5000)  # more than there can be, so all are kept
    kept += [backup(server, "daily", rotation) for rotation in huge]
    wait_until_only(glance, *kept)
    control.check()


def test_an_image_that_somebody_deletes_meanwhile_ends_the_snapshot(
    cloud: ImageCloud, tmp_path: Path, sqlite_template: Path
) -> None:
    slow = SCENARIO.replace("vcpus: 8,", "vcpus: 8, snapshot_delay_s: 0.3,")
    for control in started(cloud, tmp_path, sqlite_template, slow):
        server = control.boot()
        image_id = ask(control.member, server).body["image_id"]
        del cloud.glance.images[image_id]
        control.settle()
        after = show(control, server)
        assert (after["status"], after["OS-EXT-STS:task_state"]) == ("ACTIVE", None)
        assert own_images(cloud.glance) == []
        assert [path.name for path in (tmp_path / "hypervisors" / "disks").rglob("*.*")] == []
        control.check()


def test_a_delete_meanwhile_removes_the_image(cloud: ImageCloud, tmp_path: Path, sqlite_template: Path) -> None:
    slow = SCENARIO.replace("vcpus: 8,", "vcpus: 8, snapshot_delay_s: 0.3,")
    for control in started(cloud, tmp_path, sqlite_template, slow):
        server = control.boot()
        assert ask(control.member, server).status == 202
        assert control.member.delete(f"/servers/{server['id']}").status == 204
        control.settle()
        wait_until_only(cloud.glance)
        assert [path.name for path in (tmp_path / "hypervisors" / "disks").rglob("*") if path.is_file()] == []
        assert control.check() == {}


def test_a_host_that_cannot_copy_the_disk(cloud: ImageCloud, tmp_path: Path, sqlite_template: Path) -> None:
    failing = SCENARIO.replace("vcpus: 8,", "vcpus: 8, failing_snapshots: -1,")
    for control in started(cloud, tmp_path, sqlite_template, failing):
        server = control.boot()
        assert ask(control.member, server).status == 202
        control.settle()
        wait_until_only(cloud.glance)
        after = show(control, server)
        assert (after["status"], after["OS-EXT-STS:task_state"]) == ("ACTIVE", None)
        action = control.member.get(f"/servers/{server['id']}/os-instance-actions").body["instanceActions"][0]
        assert (action["action"], action["message"]) == ("createImage", "Error")
        control.check()
