# SPDX-License-Identifier: Apache-2.0
"""Guests are reported from time to time, by hosts whose hypervisor answers."""

from pathlib import Path
from typing import Any

import pytest

from kilonova.compute.agent import Agent
from kilonova.compute.report_timer import ReportTimer
from kilonova.messaging.messages import GuestsFound
from kilonova.model.instance import PowerState
from support.manual_bus import ManualBus
from support.one_host import OneHost, guest
from support.waiting import wait_until


class Told(ManualBus):
    def __init__(self) -> None:
        super().__init__()
        self.messages: list[Any] = []

    def tell(self, message: Any, *, urgent: bool = False) -> None:
        del urgent
        self.messages.append(message)


def agents(tmp_path: Path, *names: str) -> list[Agent]:
    made = [OneHost(tmp_path, name).agent for name in names]
    for agent in made:
        agent.driver.spawn(guest(f"of-{agent.host}"))
    return made


def test_all_hosts_are_reported_together_but_for_those_that_do_not_answer(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    one, broken, other = agents(tmp_path, "node1", "node2", "node3")

    def fail() -> None:
        raise OSError("libvirt is away")

    broken.driver.list_guests = fail  # type: ignore[method-assign, assignment]
    bus = Told()
    ReportTimer(bus, [one, broken, other], 1).report()
    (message,) = bus.messages
    assert isinstance(message, GuestsFound)
    assert message.guests == {
        "node1": {"of-node1": PowerState.RUNNING},
        "node3": {"of-node3": PowerState.RUNNING},
    }
    assert set(message.marked["node1"]) == {"of-node1"}
    assert message.asked is None
    assert "Host node2: the guests could not be listed" in caplog.text


@pytest.mark.parametrize(("interval_s", "is_on"), [(0.01, True), (-1, False)])
def test_a_negative_interval_stands_for_never(tmp_path: Path, interval_s: float, *, is_on: bool) -> None:
    bus = Told()
    timer = ReportTimer(bus, agents(tmp_path, "node1"), interval_s)
    timer.start()
    if is_on:
        wait_until(lambda: len(bus.messages) > 1, "it reports again and again")
    timer.stop()
    assert bool(bus.messages) == is_on
