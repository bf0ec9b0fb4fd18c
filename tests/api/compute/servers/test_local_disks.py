# SPDX-License-Identifier: Apache-2.0
"""Empty local disks (``blank`` to ``local``) in POST /servers, and what becomes of them when the server changes."""

from typing import Any

import pytest

from support.control import IMAGE, Control, NewControl

ROOT = {"source_type": "image", "destination_type": "local", "boot_index": 0, "uuid": IMAGE}
FLAVOR = {"OS-FLV-EXT-DATA:ephemeral": 4, "swap": 512}


@pytest.fixture(scope="module")
def control(new_shared_control: NewControl) -> Control:
    """A control process with the flavors ``2`` and ``3``, of 4 and 8 GiB of ephemeral disk and 512 MiB of swap."""
    control = new_shared_control()
    control.add_flavor("2", **FLAVOR)
    control.add_flavor("3", **{**FLAVOR, "OS-FLV-EXT-DATA:ephemeral": 8})
    control.add_flavor("4", **{**FLAVOR, "OS-FLV-EXT-DATA:ephemeral": 2})
    control.add_flavor("5", **{**FLAVOR, "swap": 1024})
    return control


def blank(gib: Any = None, **more: Any) -> dict[str, Any]:
    size = {} if gib is None else {"volume_size": gib}
    return {"source_type": "blank", "destination_type": "local", "boot_index": -1, **size, **more}


def swap(mib: Any = None, **more: Any) -> dict[str, Any]:
    return blank(mib, guest_format="swap", **more)


def boot(control: Control, *disks: dict[str, Any], flavor: str = "2") -> str:
    return str(control.boot(flavorRef=flavor, block_device_mapping_v2=list(disks))["id"])


def disks_of(control: Control, uuid: str) -> list[str]:
    """Return the disks that the guest's console log lists for its last boot, except the root disk."""
    body = {"os-getConsoleOutput": {"length": None}}
    log: str = control.admin.post(f"/servers/{uuid}/action", body).body["output"]
    line = [line for line in log.splitlines() if "MiB of memory" in line][-1]
    return line.split(", ")[3:]


@pytest.mark.parametrize(
    ("disks", "found"),
    [
        ([], ["ephemeral disk of 4 GiB", "swap of 512 MiB"]),
        ([ROOT], ["ephemeral disk of 4 GiB", "swap of 512 MiB"]),
        ([ROOT, blank(1, guest_format="ext4")], ["ephemeral disk of 1 GiB (ext4)", "swap of 512 MiB"]),
        ([blank(1), blank("3", guest_format="vfat", disk_bus="scsi", device_type="disk")],
         ["ephemeral disk of 1 GiB", "ephemeral disk of 3 GiB (vfat)", "swap of 512 MiB"]),
        ([blank(None), swap(64, boot_index=None)], ["ephemeral disk of 4 GiB", "swap of 64 MiB"]),
        ([swap(512.0, delete_on_termination=True)], ["ephemeral disk of 4 GiB", "swap of 512 MiB"]),
        ([ROOT, blank(1, boot_index=1, device_name="/dev/vdb")], ["ephemeral disk of 1 GiB", "swap of 512 MiB"]),
        ([{"source_type": "blank", "volume_size": 2}], ["ephemeral disk of 2 GiB", "swap of 512 MiB"]),
    ],
)  # fmt: skip
def test_requested_disks_replace_those_of_the_flavor(control: Control, disks: Any, found: list[str]) -> None:
    uuid = boot(control, *disks)
    assert disks_of(control, uuid) == found
    shown = control.admin.at("2.48").get(f"/servers/{uuid}/diagnostics").body
    assert shown["num_disks"] == 1 + len(found)
    assert control.admin.delete(f"/servers/{uuid}").status == 204
    control.settle()


@pytest.mark.parametrize(
    ("disks", "field", "why"),
    [
        ([blank(5)], "block_device_mapping_v2", "larger than the instance type allows: 5 of 4"),
        ([blank(1), blank(None)], "block_device_mapping_v2", "5 of 4"),
        ([swap(513)], "block_device_mapping_v2.0.volume_size", "513 of 512"),
        ([swap(1), swap(1)], "block_device_mapping_v2", "More than one swap"),
        ([ROOT, *[blank(1)] * 3], "block_device_mapping_v2", "more local devices than the limit allows: 4"),
        ([blank(1)] * 3, "block_device_mapping_v2", "more local devices than the limit allows: 4"),
        ([blank(0)], "block_device_mapping_v2.0.volume_size", "from 1"),
        ([blank("-1")], "block_device_mapping_v2.0.volume_size", "from 1"),
        ([blank("many")], "block_device_mapping_v2.0.volume_size", "whole number"),
        ([blank("9" * 400)], "block_device_mapping_v2.0.volume_size", "whole number"),
        ([blank("٣")], "block_device_mapping_v2.0.volume_size", "whole number"),
        ([blank(2**31)], "block_device_mapping_v2.0.volume_size", "from 1"),
        ([blank(1, guest_format="zfs")], "block_device_mapping_v2.0.guest_format", "ext4"),
        ([blank(1, guest_format="x" * 9000)], "block_device_mapping_v2.0.guest_format", "ext4"),
        ([blank(1, disk_bus="nvme")], "block_device_mapping_v2.0.disk_bus", "virtio"),
        ([blank(1, device_type="cdrom")], "block_device_mapping_v2.0.device_type", "disk"),
        ([blank(1, uuid=IMAGE)], "block_device_mapping_v2.0.uuid", "cannot"),
        ([blank(1, volume_type="fast")], "block_device_mapping_v2.0.volume_type", "cannot"),
        ([blank(1, tag="data")], "block_device_mapping_v2.0.tag", "cannot"),
        ([blank(1, no_device=True)], "block_device_mapping_v2.0.no_device", "cannot"),
        ([blank(1, boot_index=0)], "block_device_mapping_v2", "Boot sequence"),
        ([blank(1, boot_index=2)], "block_device_mapping_v2", "Boot sequence"),
        ([ROOT, ROOT], "block_device_mapping_v2", "Boot sequence"),
        ([blank(1, boot_index="first")], "block_device_mapping_v2.0.boot_index", "whole number"),
        ([blank(1, destination_type="volume")], "block_device_mapping_v2.0", "No volume service"),
        ([ROOT, {**ROOT, "boot_index": -1}], "block_device_mapping_v2.1", "No volume service"),
    ],
)  # fmt: skip
def test_disks_that_are_refused(control: Control, disks: Any, field: str, why: str) -> None:
    before = control.everything()
    answer = control.ask(flavorRef="2", block_device_mapping_v2=disks)
    assert answer.status == 400, answer.body
    assert field in answer.fault[1]
    assert why in answer.fault[1]
    assert len(answer.fault[1]) < 1000
    assert control.everything() == before


def test_a_flavor_without_ephemeral_disk_gives_none(control: Control) -> None:
    for disk in (blank(None), blank(1), swap(1)):
        assert control.ask(block_device_mapping_v2=[disk]).status == 400


@pytest.mark.parametrize(("limit", "count", "status"), [(-1, 3, 202), (1, 0, 202), (1, 1, 400), (0, 0, 400)])
def test_the_most_local_disks(new_control: NewControl, limit: int, count: int, status: int) -> None:
    control = new_control(more=f"[DEFAULT]\nmax_local_block_devices = {limit}\n")
    control.add_flavor("2", **FLAVOR)
    assert control.ask(flavorRef="2", block_device_mapping_v2=[blank(1)] * count).status == status
    control.settle()


def test_a_server_keeps_its_disks_when_it_is_rebuilt_and_migrated(control: Control) -> None:
    uuid = boot(control, ROOT, blank(1, guest_format="ext4"), swap(64))
    wanted = ["ephemeral disk of 1 GiB (ext4)", "swap of 64 MiB"]
    for action in ({"rebuild": {"imageRef": IMAGE}}, {"migrate": None}, {"revertResize": None}):
        assert control.admin.post(f"/servers/{uuid}/action", action).status == 202
        control.settle()
        assert disks_of(control, uuid) == wanted
    control.admin.delete(f"/servers/{uuid}")
    control.settle()


def test_a_resize_keeps_ephemeral_disks_and_takes_the_swap_of_a_flavor_that_has_another(control: Control) -> None:
    uuid = boot(control, blank(3, guest_format="ext4"), swap(64))
    refused = control.member.post(f"/servers/{uuid}/action", {"resize": {"flavorRef": "4"}})
    assert (refused.status, "flavorRef" in refused.fault[1], "3 of 2 GiB" in refused.fault[1]) == (400, True, True)
    for flavor, mib in (("3", 64), ("5", 1024)):
        assert control.member.post(f"/servers/{uuid}/action", {"resize": {"flavorRef": flavor}}).status == 202
        control.settle()
        assert disks_of(control, uuid) == ["ephemeral disk of 3 GiB (ext4)", f"swap of {mib} MiB"]
        assert control.member.post(f"/servers/{uuid}/action", {"confirmResize": None}).status == 204
        control.settle()
    control.admin.delete(f"/servers/{uuid}")
    control.settle()
