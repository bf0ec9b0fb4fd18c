# SPDX-License-Identifier: Apache-2.0
"""Actions that the host of a server does not support are refused at once; moves go to hosts that support it."""

from typing import Any

import pytest
import sqlalchemy as sa

from kilonova.db.core import tables as t
from kilonova.model.instance import VmState
from kilonova.model.needed_abilities import NEEDED
from kilonova.model.transitions import TRANSITIONS
from support.api_client import Answer, Client
from support.control import IMAGE, Control, NewControl
from support.waiting import wait_until

#: Its name is in no answer to a tenant.
SECRET = "wisteria"
PLAIN = f"""
images: [{{name: cirros}}]
hosts:
  - {{name: {SECRET}, vcpus: 8, memory_mib: 16384, capabilities: {{hypervisor_type: metal, abilities: []}}}}
  - {{name: able, vcpus: 2, memory_mib: 1024}}
"""
#: A host like a libvirt host, and a simulated one that every weigher prefers as soon as it is there.
MIXED = """
images: [{name: cirros}]
hosts:
  - name: real
    vcpus: 8
    memory_mib: 16384
    capabilities: {hypervisor_type: QEMU, abilities: [pause, reboot, rebuild, rescue, resize-same-host, snapshot]}
  - {name: simulated, vcpus: 99, memory_mib: 999999}
"""
STAYS = "[DEFAULT]\nallow_resize_to_same_host = true\n"
#: Action of the table → how it is asked for, and how it is refused.
REFUSED: dict[str, tuple[dict[str, Any], int]] = {
    "reboot": ({"reboot": {"type": "SOFT"}}, 409),
    "hard-reboot": ({"reboot": {"type": "HARD"}}, 409),
    "pause": ({"pause": None}, 501),
    "unpause": ({"unpause": None}, 501),
    "suspend": ({"suspend": None}, 409),
    "resume": ({"resume": None}, 409),
    "rescue": ({"rescue": None}, 501),
    "unrescue": ({"unrescue": None}, 501),
    "rebuild": ({"rebuild": {"imageRef": IMAGE}}, 409),
    "resize": ({"resize": {"flavorRef": "2"}}, 409),
    "migrate": ({"migrate": None}, 409),
    "live-migrate": ({"os-migrateLive": {"host": None, "block_migration": "auto"}}, 400),
    "shelve": ({"shelve": None}, 409),
    "create-image": ({"createImage": {"name": "copy"}}, 409),
    "create-backup": ({"createBackup": {"name": "copy", "backup_type": "daily", "rotation": 1}}, 409),
    "change-password": ({"changePassword": {"adminPass": "correct-horse"}}, 501),
    "crash-dump": ({"trigger_crash_dump": None}, 409),
}


@pytest.fixture(scope="module")
def plain(new_shared_control: NewControl) -> tuple[Control, str]:
    """A server on a host whose driver can do nothing beside the core."""
    control = new_shared_control(scenario=PLAIN, more=STAYS)
    control.add_flavor("2", ram=1024, vcpus=2, disk=2)
    server = control.boot()
    assert server["OS-EXT-SRV-ATTR:host"] == SECRET
    return control, server["id"]


def put(control: Control, uuid: str, vm_state: VmState) -> None:
    change = sa.update(t.instances).where(t.instances.c.uuid == uuid).values(vm_state=vm_state.value)
    control.process.database.write(lambda tx: tx.execute(change))


def act(client: Client, uuid: str, body: Any) -> Answer:
    return client.post(f"/servers/{uuid}/action", body)


def test_every_action_that_needs_an_ability_is_tried_here() -> None:
    by_other_routes = {"attach-interface", "detach-interface"}
    assert set(REFUSED) == set(NEEDED) - by_other_routes


@pytest.mark.parametrize("kind", REFUSED)
def test_what_the_host_cannot_do_is_refused_at_once_and_names_no_host(plain: tuple[Control, str], kind: str) -> None:
    control, uuid = plain
    put(control, uuid, min(TRANSITIONS[kind].states))
    before = control.everything()
    body, status = REFUSED[kind]
    client = control.admin if kind in {"migrate", "live-migrate"} else control.member
    answer = act(client, uuid, body)
    assert answer.status == status, answer.raw
    text = answer.raw.decode()
    assert all(ability in text for ability in NEEDED[kind]), text
    assert TRANSITIONS[kind].name in text
    assert SECRET not in text
    assert control.everything() == before


@pytest.mark.parametrize(
    ("method", "path", "body", "ability"),
    [
        ("POST", "action", {"os-getConsoleOutput": {}}, "console-output"),
        ("POST", "remote-consoles", {"remote_console": {"protocol": "vnc", "type": "novnc"}}, "consoles"),
        ("GET", "diagnostics", None, "diagnostics"),
    ],
)
def test_what_the_host_cannot_tell_is_not_asked(
    plain: tuple[Control, str], method: str, path: str, body: Any, ability: str
) -> None:
    control, uuid = plain
    answer = control.admin.send(method, f"/servers/{uuid}/{path}", body)
    assert (answer.status, answer.fault[0]) == (501, "notImplemented")
    assert ability in answer.fault[1]


def test_what_every_host_can_do_is_done(plain: tuple[Control, str]) -> None:
    control, uuid = plain
    put(control, uuid, VmState.ACTIVE)
    for body in ({"os-stop": None}, {"os-start": None}):
        assert act(control.member, uuid, body).status == 202
        control.settle()
    assert control.admin.get(f"/servers/{uuid}").body["server"]["status"] == "ACTIVE"


def on_the_real_host(control: Control) -> str:
    control.add_flavor("2", ram=1024, vcpus=2, disk=2)
    server = control.boot(availability_zone="nova:real", client=control.admin)
    assert server["OS-EXT-SRV-ATTR:host"] == "real"
    uuid: str = server["id"]
    return uuid


def newest_decision(control: Control, uuid: str) -> dict[str, Any]:
    """Return the decision on the move of a server, which is stored in the background after that on its build."""
    operator = control.operator
    found: list[dict[str, Any]] = []

    def both() -> bool:
        found[:] = operator.get(f"/decisions/{uuid}").body["decisions"]
        return len(found) == 2

    wait_until(both, "the decision on the move is stored")
    return found[0]


def test_a_server_of_a_host_that_moves_no_guests_is_refused_every_move(new_control: NewControl) -> None:
    control = new_control(scenario=MIXED)
    uuid = on_the_real_host(control)
    for body, status in (
        ({"migrate": None}, 409),
        ({"migrate": {"host": "simulated"}}, 409),
        ({"os-migrateLive": {"host": None, "block_migration": "auto"}}, 400),
        ({"resize": {"flavorRef": "2"}}, 409),
    ):
        answer = act(control.admin, uuid, body)
        assert answer.status == status, (body, answer.raw)
        assert "-migrate" in answer.fault[1]
    assert control.admin.get(f"/servers/{uuid}/migrations").body["migrations"] == []
    control.check()


def test_a_resize_among_mixed_hosts_stays_and_says_why(new_control: NewControl) -> None:
    control = new_control(scenario=MIXED, more=STAYS)
    uuid = on_the_real_host(control)
    assert act(control.admin, uuid, {"resize": {"flavorRef": "2"}}).status == 202
    control.settle()
    server = control.admin.get(f"/servers/{uuid}").body["server"]
    assert (server["status"], server["OS-EXT-SRV-ATTR:host"]) == ("VERIFY_RESIZE", "real")
    decision = newest_decision(control, uuid)
    removed = {step["rule"]: [host["host"] for host in step["removed"]] for step in decision["steps"]}
    assert removed["hypervisor_type"] == ["simulated"]
    assert decision["chosen"] == "real"
    control.check()


def test_a_resize_that_does_not_fit_where_it_has_to_stay_finds_no_host(new_control: NewControl) -> None:
    control = new_control(scenario=MIXED, more=STAYS)
    uuid = on_the_real_host(control)
    control.add_flavor("big", ram=1024, vcpus=64, disk=2)
    assert act(control.admin, uuid, {"resize": {"flavorRef": "big"}}).status == 202
    control.settle()
    server = control.admin.get(f"/servers/{uuid}").body["server"]
    assert (server["status"], server["OS-EXT-SRV-ATTR:host"]) == ("ACTIVE", "real")
    assert newest_decision(control, uuid)["chosen"] is None
    control.check()


def test_an_evacuation_goes_to_another_hypervisor_that_can_make_the_guest(new_control: NewControl) -> None:
    control = new_control(scenario=MIXED)
    uuid = on_the_real_host(control)
    (service,) = (each for each in control.admin.get("/os-services").body["services"] if each["host"] == "real")
    assert control.admin.put(f"/os-services/{service['id']}", {"forced_down": True}).status == 200
    assert act(control.admin, uuid, {"evacuate": {}}).status == 200
    control.settle()
    server = control.admin.get(f"/servers/{uuid}").body["server"]
    assert server["OS-EXT-SRV-ATTR:host"] == "simulated", server
