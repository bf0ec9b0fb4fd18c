# SPDX-License-Identifier: Apache-2.0
"""update_resources_interval: hypervisors that have changed are reported, in the session of their process."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kilonova.compute.resource_timer import ResourceTimer
from kilonova.compute.sessions import start_agents
from kilonova.compute.virt.fake import FakeDriver
from kilonova.errors import HypervisorAway, Unavailable
from kilonova.messaging.messages import Answer, HostsRegistered, HostsStarted, Question
from kilonova.model.host import NodeReport
from support.manual_bus import ManualBus
from support.one_host import OneHost
from support.waiting import wait_until


class Asked(ManualBus):
    def __init__(self) -> None:
        super().__init__()
        self.questions: list[Any] = []
        self.is_away = False

    def ask(self, question: Question, within_s: float | None = None) -> Answer:
        del within_s
        if self.is_away:
            raise Unavailable("Nobody is there.")
        self.questions.append(question)
        return HostsRegistered()


def grow(one: OneHost, vcpus: int) -> None:
    one.driver.hypervisor.host = replace(one.driver.hypervisor.host, vcpus=vcpus)


def test_only_what_has_changed_is_reported_and_only_once(tmp_path: Path) -> None:
    first, second = OneHost(tmp_path, "node1"), OneHost(tmp_path, "node2")
    bus = Asked()
    timer = ResourceTimer(bus, [first.agent, second.agent], lambda: "s1", 3600)
    timer.start()
    try:
        timer.look()
        assert bus.questions == []
        grow(second, 64)
        bus.is_away = True
        with pytest.raises(Unavailable):
            timer.look()
        bus.is_away = False
        timer.look()
        timer.look()
        (told,) = bus.questions
        assert isinstance(told, HostsStarted)
        assert (told.session, [report.host for report in told.reports]) == ("s1", ["node2"])
    finally:
        timer.stop()


def test_a_hypervisor_that_does_not_answer_keeps_no_other_one_waiting(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broken, other = OneHost(tmp_path, "node1"), OneHost(tmp_path, "node2")
    bus = Asked()
    timer = ResourceTimer(bus, [broken.agent, other.agent], lambda: "s1", 3600)
    timer.start()
    try:

        def fail() -> None:
            raise OSError("libvirt is away")

        broken.driver.report = fail  # type: ignore[method-assign, assignment]
        grow(other, 64)
        timer.look()
        (told,) = bus.questions
        assert [report.host for report in told.reports] == ["node2"]
        assert "Host node1: its resources could not be read" in caplog.text
    finally:
        timer.stop()


class Away(FakeDriver):
    is_away = True

    def report(self) -> NodeReport:
        if self.is_away:
            raise HypervisorAway
        return super().report()


def test_a_hypervisor_that_is_away_at_the_start_is_reported_once_it_is_there(tmp_path: Path) -> None:
    one, bus = OneHost(tmp_path, driver=Away), Asked()
    timer = ResourceTimer(bus, [one.agent], lambda: "s1", 3600)
    timer.start()
    try:
        timer.look()
        assert bus.questions == []
        with pytest.raises(Unavailable, match="Host node1: The hypervisor does not answer"):
            start_agents([one.agent], bus)
        assert isinstance(one.driver, Away)
        one.driver.is_away = False
        start_agents([one.agent], bus)
        timer.look()
        assert [told.reports[0].host for told in bus.questions] == ["node1", "node1"]
    finally:
        timer.stop()


@pytest.mark.parametrize(("interval_s", "session", "times"), [(0.01, "s1", 1), (0.01, "", 0), (-1, "s1", 0)])
def test_the_interval(tmp_path: Path, interval_s: float, session: str, times: int) -> None:
    one, bus = OneHost(tmp_path), Asked()
    looked: list[bool] = []

    def present() -> str:
        looked.append(True)
        return session

    timer = ResourceTimer(bus, [one.agent], present, interval_s)
    timer.start()
    grow(one, 64)
    if interval_s >= 0:
        wait_until(lambda: len(looked) > 3, "it looks again and again")
    timer.stop()
    assert len(bus.questions) == times
