# SPDX-License-Identifier: Apache-2.0
"""A rescued guest keeps its own disk; whatever comes between, it comes back from it."""

from pathlib import Path
from typing import Any

import pytest

from kilonova.compute.virt.fake.guests import GuestFile, SimulatedGuest
from kilonova.messaging.messages import (
    PauseGuest,
    RebootGuest,
    RescueGuest,
    SetAdminPassword,
    StartGuest,
    StopGuest,
    TriggerCrashDump,
    UnrescueGuest,
)
from kilonova.model.instance import PowerState
from support.one_host import OneHost, guest, host_with_guest, new_step

OWN = guest(image_ref="own")


def on_disk(host: OneHost) -> SimulatedGuest:
    found = GuestFile(host.name, host.file).places["a"].guest
    assert found is not None
    return found


def written(host: OneHost) -> list[str]:
    return [entry.what for entry in on_disk(host).console]


@pytest.fixture
def host(tmp_path: Path) -> OneHost:
    return host_with_guest(tmp_path, OWN)


def rescue(host: OneHost, image: str = "helper") -> Any:
    return host.do(RescueGuest(new_step(), OWN, image, None, "secret"))


@pytest.mark.parametrize("off", [False, True])
def test_there_and_back(host: OneHost, *, off: bool) -> None:
    if off:
        host.do(StopGuest(new_step(), "a"))
    for _ in range(2):  # again: nothing more happens
        reply = rescue(host)
        assert (reply.error, reply.power_state) == (None, PowerState.RUNNING)
    found = on_disk(host)
    assert (found.state, found.image_ref, found.rescue_image_ref) == (PowerState.RUNNING, "own", "helper")
    for _ in range(2):
        reply = host.do(UnrescueGuest(new_step(), "a"))
        assert (reply.error, reply.power_state) == (None, PowerState.RUNNING)
    found = on_disk(host)
    assert (found.state, found.image_ref, found.rescue_image_ref) == (PowerState.RUNNING, "own", None)
    assert written(host) == ["first start", "rescue from image helper", "start from its own disk"]


def test_with_another_image(host: OneHost) -> None:
    for image in ("helper", "another"):
        assert rescue(host, image).error is None
    assert on_disk(host).rescue_image_ref == "another"


@pytest.mark.parametrize(
    "orders",
    [
        (lambda: RebootGuest(new_step(), "a", hard=True),),
        (lambda: StopGuest(new_step(), "a"), lambda: StartGuest(new_step(), "a")),
    ],
)
def test_a_start_or_a_hard_reboot_takes_its_own_disk(host: OneHost, orders: Any) -> None:
    rescue(host)
    for order in orders:
        host.do(order())
    assert (on_disk(host).state, on_disk(host).rescue_image_ref) == (PowerState.RUNNING, None)


def test_no_guest_no_rescue(tmp_path: Path) -> None:
    empty = OneHost(tmp_path, "node2")
    for order in (
        RescueGuest(new_step(), OWN, "helper"),
        UnrescueGuest(new_step(), "a"),
        SetAdminPassword(new_step(), "a", "secret"),
        TriggerCrashDump(new_step(), "a"),
    ):
        assert empty.do(order).error == "Guest a does not exist."


def test_a_guest_that_runs_or_is_paused_is_reached_inside(host: OneHost) -> None:
    reply = host.do(SetAdminPassword(new_step(), "a", "secret"))
    assert (reply.error, reply.power_state) == (None, PowerState.RUNNING)
    host.do(PauseGuest(new_step(), "a"))
    reply = host.do(TriggerCrashDump(new_step(), "a"))
    assert (reply.error, reply.power_state) == (None, PowerState.PAUSED)
    assert written(host) == [
        "first start",
        "The password of the administrator was set",
        "Non-maskable interrupt: a crash dump was written",
    ]
    host.do(StopGuest(new_step(), "a"))
    for order in (SetAdminPassword(new_step(), "a", "secret"), TriggerCrashDump(new_step(), "a")):
        reply = host.do(order)
        assert (reply.error, reply.power_state) == ("Guest a does not run.", PowerState.SHUTDOWN)


def test_no_password_is_shown_or_kept(host: OneHost) -> None:
    orders = RescueGuest(new_step(), OWN, "helper", None, "secret"), SetAdminPassword(new_step(), "a", "secret")
    for order in orders:
        assert "secret" not in repr(order)
        assert host.do(order).error is None
    assert b"secret" not in host.file.read_bytes()
