# SPDX-License-Identifier: Apache-2.0
"""Reboots of guests: the reported tasks, the guest between shutdown and start, and refusals."""

from pathlib import Path

import pytest

from kilonova.messaging.messages import (
    RebootGuest,
    SpawnGuest,
    StartGuest,
    TaskReached,
)
from kilonova.model.instance import PowerState, TaskState
from support.one_host import OneHost, guest, new_step


@pytest.mark.parametrize("hard", [False, True])
def test_the_agent_tells_how_far_a_reboot_is(tmp_path: Path, *, hard: bool) -> None:
    one = OneHost(tmp_path)
    one.do(SpawnGuest(new_step(), guest()))
    waits = TaskState.REBOOT_PENDING_HARD if hard else TaskState.REBOOT_PENDING
    begins = TaskState.REBOOT_STARTED_HARD if hard else TaskState.REBOOT_STARTED
    at_once, queued = new_step(), new_step()
    one.do(RebootGuest(at_once, "a", hard=hard))
    one.send(StartGuest(new_step(), "a"))
    one.send(RebootGuest(queued, "a", hard=hard))
    one.bus.run()
    told = [(told.step, told.task) for told in one.told_of(TaskReached)]
    assert told == [(at_once, begins), (queued, waits), (queued, begins)]


@pytest.mark.parametrize("hard", [False, True])
def test_the_guest_is_off_in_between(tmp_path: Path, *, hard: bool) -> None:
    """As the file of its host shows it, which is what a crash leaves."""
    one = OneHost(tmp_path, start_delay_s=0.01)
    one.do(SpawnGuest(new_step(), guest()))
    seen: list[PowerState] = []
    one.driver.hypervisor.sleep = lambda _seconds: seen.append(OneHost(tmp_path).driver.list_guests()["a"])
    assert one.do(RebootGuest(new_step(), "a", hard=hard)).power_state is PowerState.RUNNING
    assert seen == [PowerState.SHUTDOWN]


def test_a_soft_reboot_of_a_guest_that_does_not_run_is_not_done_and_says_so(tmp_path: Path) -> None:
    one = OneHost(tmp_path)
    one.do(SpawnGuest(new_step(), guest()))
    one.driver.stop("a")
    reply = one.do(RebootGuest(new_step(), "a"))
    assert (reply.error, reply.power_state) == (None, PowerState.SHUTDOWN)
    assert one.driver.list_guests() == {"a": PowerState.SHUTDOWN}


def test_a_hard_reboot_makes_a_guest_anew_that_is_gone(tmp_path: Path) -> None:
    one = OneHost(tmp_path)
    gone = one.do(RebootGuest(new_step(), "a", hard=True))
    assert (gone.error, gone.power_state) == (None, PowerState.NOSTATE)
    reply = one.do(RebootGuest(new_step(), "a", hard=True, guest=guest(memory_mib=2048)))
    assert (reply.error, reply.power_state, one.size_of()) == (None, PowerState.RUNNING, 2048)
    one.do(RebootGuest(new_step(), "a", hard=True, guest=guest(memory_mib=4096)))
    assert one.size_of() == 2048, "one that is there stays"
