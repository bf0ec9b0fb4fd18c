# SPDX-License-Identifier: Apache-2.0
"""DELETE /servers/{id} with reclaim_instance_interval, restore and forceDelete."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from support.control import Control, NewControl, start_control
from support.waiting import wait_until


@pytest.fixture
def keeping(new_control: NewControl) -> Control:
    """A cloud in which deleted servers can be restored, and two servers are all that a project may have."""
    return new_control(more="instances = 2\n[DEFAULT]\nreclaim_instance_interval = 3600\n")


def act(control: Control, uuid: str, action: str, client: Any = None, value: Any = None) -> Any:
    return (client or control.member).post(f"/servers/{uuid}/action", {action: value})


def test_delete_and_restore(keeping: Control) -> None:
    uuid = keeping.boot()["id"]
    answer = keeping.member.delete(f"/servers/{uuid}")
    assert (answer.status, answer.raw) == (204, b"")
    assert keeping.settled_status(uuid) == "SOFT_DELETED"
    assert keeping.member.get("/servers").body["servers"] == []
    assert keeping.member.get("/limits").body["limits"]["absolute"]["totalInstancesUsed"] == 0
    assert act(keeping, uuid, "restore").status == 202
    assert keeping.settled_status(uuid) == "ACTIVE"
    assert act(keeping, uuid, "restore").fault == (
        "conflictingRequest",
        f"Cannot 'restore' instance {uuid} while it is in vm_state active",
    )
    keeping.check()


def test_a_restore_over_quota_is_refused(keeping: Control) -> None:
    uuid = keeping.boot()["id"]
    keeping.member.delete(f"/servers/{uuid}")
    keeping.settle()
    keeping.boot(), keeping.boot()
    answer = act(keeping, uuid, "restore")
    assert answer.status == 403
    assert answer.fault[0] == "forbidden"
    assert "instances" in answer.fault[1]
    assert keeping.settled_status(uuid) == "SOFT_DELETED"
    keeping.check()


def test_a_soft_deleted_server_takes_no_other_action(keeping: Control) -> None:
    uuid = keeping.boot()["id"]
    keeping.member.delete(f"/servers/{uuid}")
    keeping.settle()
    for action in ("os-start", "os-stop", "confirmResize", "migrate", "pause", "shelve"):
        assert act(keeping, uuid, action, keeping.admin).status == 409, action


def test_a_server_without_a_host_is_deleted_at_once(keeping: Control) -> None:
    keeping.add_flavor("9", vcpus=64)
    uuid = keeping.boot(flavorRef="9")["id"]
    assert keeping.member.delete(f"/servers/{uuid}").status == 204
    keeping.settle()
    assert keeping.member.get(f"/servers/{uuid}").status == 404


def test_a_forced_delete_of_a_soft_deleted_server_and_of_one_that_runs(keeping: Control) -> None:
    uuid = keeping.boot()["id"]
    assert act(keeping, uuid, "forceDelete").status == 202
    keeping.settle()
    assert keeping.member.get(f"/servers/{uuid}").status == 404
    soft = keeping.boot()["id"]
    keeping.member.delete(f"/servers/{soft}")
    keeping.settle()
    assert act(keeping, soft, "forceDelete", keeping.admin).status == 202
    keeping.settle()
    assert keeping.member.get(f"/servers/{soft}").status == 404
    keeping.check()


def test_a_forced_delete_needs_no_interval(control: Control) -> None:
    uuid = control.boot()["id"]
    assert act(control, uuid, "forceDelete").status == 202
    control.settle()
    assert control.member.get(f"/servers/{uuid}").status == 404
    actions = control.member.get(f"/servers/{uuid}/os-instance-actions").body["instanceActions"]
    assert [action["action"] for action in actions] == ["delete", "create"]
    control.check()


def test_others_do_not_see_it(keeping: Control) -> None:
    uuid = keeping.boot()["id"]
    keeping.member.delete(f"/servers/{uuid}")
    assert keeping.settled_status(uuid) == "SOFT_DELETED"
    for action in ("restore", "forceDelete"):
        assert act(keeping, uuid, action, keeping.stranger).status == 404, action
    assert keeping.settled_status(uuid) == "SOFT_DELETED"


def test_a_control_process_reclaims_by_itself(sqlite_template: Path, tmp_path: Path) -> None:
    shutil.copy(sqlite_template, tmp_path / "kilonova.db")
    control = start_control(tmp_path, more="[DEFAULT]\nreclaim_instance_interval = 1\n")
    try:
        control.add_flavor()
        uuid = control.boot()["id"]
        control.member.delete(f"/servers/{uuid}")
        control.settle()
        wait_until(lambda: control.member.get(f"/servers/{uuid}").status == 404, "it is reclaimed", at_most_s=20)
        control.check()
    finally:
        control.process.close()
