# SPDX-License-Identifier: Apache-2.0
"""An administrator says what the state of a server is."""

from datetime import datetime
from typing import Any

from kilonova.db import instances, quotas
from kilonova.db.audits import audit
from kilonova.db.core.transaction import Transaction
from kilonova.model.instance import TaskState, VmState
from support.control import Control


def act(control: Control, uuid: str, client: Any = None, **body: Any) -> Any:
    return (client or control.admin).post(f"/servers/{uuid}/action", body)


def shown(control: Control, uuid: str) -> tuple[str, str | None]:
    server = control.admin.get(f"/servers/{uuid}").body["server"]
    return server["status"], server["OS-EXT-STS:task_state"]


def change(control: Control, uuid: str, **values: Any) -> None:
    control.process.database.write(lambda tx: instances.change(tx, uuid, **values))


def test_a_server_is_said_to_be_in_error_and_to_work_again(control: Control) -> None:
    uuid = control.boot()["id"]
    answer = act(control, uuid, **{"os-resetState": {"state": "error"}})
    assert (answer.status, answer.raw) == (202, b"")
    assert shown(control, uuid) == ("ERROR", None)
    assert act(control, uuid, **{"os-resetState": {"state": "active"}}).status == 202
    assert shown(control, uuid) == ("ACTIVE", None)
    actions = control.member.get(f"/servers/{uuid}/os-instance-actions").body["instanceActions"]
    assert [each["action"] for each in actions] == ["resetState", "resetState", "create"]
    control.check()


def test_whatever_the_server_is_doing(control: Control) -> None:
    uuid = control.boot()["id"]
    for vm_state in set(VmState) - {VmState.DELETED, VmState.SOFT_DELETED}:
        change(control, uuid, vm_state=vm_state, task_state=TaskState.REBOOTING, locked_by="admin")
        assert act(control, uuid, **{"os-resetState": {"state": "active"}}).status == 202
        assert shown(control, uuid) == ("ACTIVE", None)


def test_one_that_was_soft_deleted_counts_again(control: Control) -> None:
    uuid = control.boot()["id"]

    def soft_delete(tx: Transaction) -> None:
        server = instances.get(tx.connection, uuid)
        instances.change(tx, uuid, vm_state=VmState.SOFT_DELETED, deleted_at=datetime(2026, 1, 1))  # noqa: DTZ001
        quotas.recount(tx, server.project_id)

    control.process.database.write(soft_delete)
    assert act(control, uuid, **{"os-resetState": {"state": "active"}}).status == 202
    with control.process.database.read() as connection:
        assert instances.get(connection, uuid).deleted_at is None
        assert list(audit.wrong_quota_usages(connection)) == []
    control.check()


def test_one_that_is_being_soft_deleted_is_not_deleted_any_more(control: Control) -> None:
    uuid = control.boot()["id"]
    change(control, uuid, task_state=TaskState.SOFT_DELETING, deleted_at=datetime(2026, 1, 1))  # noqa: DTZ001
    assert act(control, uuid, **{"os-resetState": {"state": "error"}}).status == 202
    with control.process.database.read() as connection:
        assert instances.get(connection, uuid).deleted_at is None


def test_states_that_cannot_be_said(control: Control) -> None:
    uuid = control.boot()["id"]
    for given in (None, {}, {"state": "stopped"}, {"state": None}, {"state": "active", "task": None}):
        assert act(control, uuid, **{"os-resetState": given}).status == 400
    assert shown(control, uuid) == ("ACTIVE", None)


def test_only_administrators(control: Control) -> None:
    uuid = control.boot()["id"]
    manager = type(control.member)(control.process.application, "bob:wonder", "2.100", {"X-Roles": "manager,member"})
    for body in ({"os-resetState": {"state": "error"}}, {"injectNetworkInfo": None}):
        assert act(control, uuid, control.member, **body).status == 403
        assert act(control, uuid, manager, **body).status == 403
        assert act(control, uuid, control.stranger, **body).status == 404
        assert act(control, "00000000-0000-4000-8000-000000000000", **body).status == 404


def test_there_is_no_network_to_tell_of(control: Control) -> None:
    uuid = control.boot()["id"]
    before = control.everything()
    answer = act(control, uuid, injectNetworkInfo=None)
    assert (answer.status, answer.raw) == (202, b"")
    assert control.everything() == before
    assert act(control, uuid, injectNetworkInfo={}).status == 202
    control.add_flavor("9", vcpus=64)
    assert act(control, control.boot(flavorRef="9")["id"], injectNetworkInfo=None).status == 409
