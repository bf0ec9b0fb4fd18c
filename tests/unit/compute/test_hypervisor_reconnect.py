# SPDX-License-Identifier: Apache-2.0
"""Orders that find the hypervisor away."""

import threading
from pathlib import Path

import pytest

from kilonova.compute.hypervisor_reconnect import HypervisorReconnect
from kilonova.compute.virt.base import AgentStopsError
from kilonova.compute.virt.fake import FakeDriver
from kilonova.errors import DriverError, HypervisorAway
from kilonova.messaging.messages import SpawnGuest, StopGuest
from kilonova.model.instance import GuestSpec, PowerState
from support.one_host import OneHost, guest, new_step


class Flaky:
    """Is away so often, then there."""

    def __init__(self, times: int) -> None:
        self.left = times
        self.calls = 0

    def __call__(self) -> str:
        self.calls += 1
        if self.left:
            self.left -= 1
            raise HypervisorAway
        return "done"


def test_what_a_hypervisor_left_in_the_middle_is_done_again() -> None:
    flaky = Flaky(1)
    assert HypervisorReconnect().bridge(flaky) == "done"
    assert flaky.calls == 2


def test_one_that_stays_away_is_waited_for_no_longer_than_it_may() -> None:
    flaky = Flaky(1000)
    with pytest.raises(HypervisorAway):
        HypervisorReconnect(0.6).bridge(flaky)
    assert flaky.calls == 2


def test_another_failure_is_told_at_once() -> None:
    calls: list[None] = []

    def fail() -> None:
        calls.append(None)
        raise DriverError("No.")

    with pytest.raises(DriverError, match="No"):
        HypervisorReconnect().bridge(fail)
    assert len(calls) == 1


def test_an_agent_that_ends_waits_no_longer() -> None:
    absences = HypervisorReconnect()
    threading.Timer(0.05, absences.stop).start()
    with pytest.raises(AgentStopsError):
        absences.bridge(Flaky(1000))


class Restarting(FakeDriver):
    """Goes away once it has made a guest, and before it says so."""

    has_gone = False

    def spawn(self, guest: GuestSpec) -> None:
        super().spawn(guest)
        if not self.has_gone:
            self.has_gone = True
            raise HypervisorAway


def test_an_order_is_carried_out_although_the_hypervisor_restarts(tmp_path: Path) -> None:
    one = OneHost(tmp_path, driver=Restarting)
    reply = one.do(SpawnGuest(new_step(), guest()))
    assert (reply.error, reply.power_state) == (None, PowerState.RUNNING)
    assert one.do(StopGuest(new_step(), "a")).power_state is PowerState.SHUTDOWN
