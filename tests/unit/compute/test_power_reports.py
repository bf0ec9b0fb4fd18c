# SPDX-License-Identifier: Apache-2.0
from types import SimpleNamespace
from typing import Any

import pytest

from kilonova.compute.power_reports import PowerReporting, PowerReports
from kilonova.messaging.messages import PowerStates
from kilonova.model.instance import PowerState

RUNNING = {"g": PowerState.RUNNING}


class Host:
    """A host with one running guest. ``events``: those that its driver reports at the next poll."""

    def __init__(self, name: str) -> None:
        self.host = name
        self.driver = self
        self.is_away = False
        self.events: dict[str, PowerState] = {}

    def list_guests(self) -> dict[str, PowerState]:
        if self.is_away:
            raise ConnectionError
        return dict(RUNNING)

    def changed_guests(self) -> dict[str, PowerState]:
        if self.is_away:
            raise ConnectionError
        events, self.events = self.events, {}
        return events


def reports_of(*hosts: Host, **settings: Any) -> tuple[PowerReports, list[PowerStates]]:
    told: list[PowerStates] = []
    bus: Any = SimpleNamespace(tell=told.append)
    agents: Any = hosts
    return PowerReports(bus, agents, PowerReporting(**settings)), told


def test_guests_are_resumed_by_the_first_session_only() -> None:
    reports, told = reports_of(Host("node1"), resume=True, interval_s=-1)
    reports.came_up()
    assert told == [PowerStates({"node1": RUNNING}, resume=True)]
    reports.came_up()
    assert len(told) == 1, "full reports are disabled"
    reports, told = reports_of(Host("node1"), resume=True)
    reports.came_up()
    reports.came_up()
    assert [each.resume for each in told] == [True, False]


def test_changes_from_before_the_first_session_are_no_events() -> None:
    host = Host("node1")
    reports, told = reports_of(host)
    host.events = {"g": PowerState.SHUTDOWN}
    reports.came_up()
    reports.report_events()
    assert [each.whole for each in told] == [True]
    host.events = {"g": PowerState.SHUTDOWN}
    reports.came_up()  # a later session: what happened meanwhile is an event
    reports.report_events()
    assert told[-1] == PowerStates({"node1": {"g": PowerState.SHUTDOWN}}, whole=False)


def test_a_hypervisor_that_does_not_answer_keeps_no_other_host_from_reporting(
    caplog: pytest.LogCaptureFixture,
) -> None:
    away, well = Host("node1"), Host("node2")
    reports, told = reports_of(away, well)
    away.is_away = True
    well.events = {"g": PowerState.PAUSED}
    reports.report()
    reports.report_events()
    assert [list(each.guests) for each in told] == [["node2"], ["node2"]]
    assert caplog.text.count("Host node1") == 2


def test_many_hosts_are_reported_in_several_messages() -> None:
    reports, told = reports_of(*(Host(f"node{number}") for number in range(450)))
    reports.report()
    assert [len(each.guests) for each in told] == [200, 200, 50]
