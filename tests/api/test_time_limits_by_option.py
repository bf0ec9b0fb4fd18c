# SPDX-License-Identifier: Apache-2.0
"""A control process does by itself what its options say is to be done after a time."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.control import Control, start_control
from support.waiting import wait_until

Start = Callable[..., Control]


@pytest.fixture
def start(sqlite_template: Path, tmp_path: Path) -> Iterator[Start]:
    """Starts a control process with lines of [DEFAULT]."""
    shutil.copy(sqlite_template, tmp_path / "kilonova.db")
    started: list[Control] = []

    def begin(options: str, **more: Any) -> Control:
        started.append(start_control(tmp_path, more=f"[DEFAULT]\n{options}\n", **more))
        started[-1].add_flavor()
        started[-1].add_flavor("2", ram=1024, vcpus=2, disk=2)
        return started[-1]

    yield begin
    for control in started:
        control.process.close()


def becomes(control: Control, uuid: str, status: str) -> None:
    def shown() -> bool:
        return bool(control.admin.get(f"/servers/{uuid}").body["server"]["status"] == status)

    wait_until(shown, f"the server becomes {status}", at_most_s=30, every_s=0.1)


def test_resizes_are_confirmed_and_rescues_end(start: Start) -> None:
    control = start("resize_confirm_window = 1\nrescue_timeout = 1")
    resized, rescued = control.boot()["id"], control.boot()["id"]
    for uuid, action in ((resized, {"resize": {"flavorRef": "2"}}), (rescued, {"rescue": {}})):
        assert control.member.post(f"/servers/{uuid}/action", action).status in {200, 202}
    wait_until(lambda: "confirmResize" in actions(control, resized), "it is confirmed", at_most_s=30, every_s=0.1)
    wait_until(lambda: "unrescue" in actions(control, rescued), "it is unrescued", at_most_s=30, every_s=0.1)
    for uuid in (resized, rescued):
        becomes(control, uuid, "ACTIVE")
    (newest, *_) = control.member.get(f"/servers/{resized}/os-instance-actions").body["instanceActions"]
    assert (newest["action"], newest["user_id"], newest["project_id"]) == ("confirmResize", None, None)
    control.settle()
    control.check()


def actions(control: Control, uuid: str) -> set[str]:
    found = control.member.get(f"/servers/{uuid}/os-instance-actions").body["instanceActions"]
    return {action["action"] for action in found}


def test_builds_are_given_up(start: Start) -> None:
    slow = "images: [{name: cirros}]\nhosts: [{name: node1, vcpus: 8, memory_mib: 16384, spawn_delay_s: 6}]\n"
    control = start("instance_build_timeout = 1", scenario=slow)
    uuid = control.ask().body["server"]["id"]
    becomes(control, uuid, "ERROR")
    fault = control.member.get(f"/servers/{uuid}").body["server"]["fault"]
    assert fault["message"] == "The build took longer than 1 s."
    control.settle()
    control.check()
