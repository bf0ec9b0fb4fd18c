# SPDX-License-Identifier: Apache-2.0
"""At level DEBUG the log walks through the rules of a decision, host by host; else nobody makes the lines."""

import logging
import re
from typing import Any

import pytest
from tests.unit.scheduler.small_cloud import host, request, table

from kilonova.claims import decision_trace
from kilonova.claims.decision_trace import DecisionTrace
from kilonova.claims.outside_driver import OutsideDriver
from kilonova.logs import request_context
from kilonova.scheduler.driver import Scheduler
from kilonova.scheduler.engine.engine import Engine
from kilonova.scheduler.filters import ComputeFilter
from kilonova.scheduler.resources import with_resources
from support.cell import NewCell
from support.cell import host as simulated
from support.orders import order

ONE, TWO = (f"(node{n}, node{n})" for n in (1, 2))
SHAPE = r"ram:[0-9]+ disk:[0-9]+ io_ops:0 instances:0"


def test_each_host_under_each_rule_who_is_left_and_who_is_chosen(
    cell_of: NewCell, caplog: pytest.LogCaptureFixture
) -> None:
    cell = cell_of(simulated("node1"), simulated("node2"))
    asked = order(cell, to="node2")
    with caplog.at_level(logging.DEBUG, decision_trace.__name__):
        cell.claimer.place(asked)
    lines = [record.getMessage() for record in caplog.records if record.name == decision_trace.__name__]
    assert lines[0] == "Starting with 2 hosts"
    walk = "\n".join(lines)
    assert re.search(rf"^[^\n]+: {re.escape(ONE)} {SHAPE} fails: .+$", walk, re.MULTILINE)
    assert re.search(rf"^ComputeFilter: {re.escape(TWO)} {SHAPE} passes$", walk, re.MULTILINE)
    assert f"ComputeFilter returned 1 of 1 hosts: {TWO}" in walk
    assert re.search(rf"Selected for server 1 of 1: {re.escape(TWO)} {SHAPE}, weight ", lines[-1])


def test_later_servers_of_a_request_only_tell_what_is_new(cell_of: NewCell, caplog: pytest.LogCaptureFixture) -> None:
    cell = cell_of(simulated("node1"), simulated("node2"))
    with caplog.at_level(logging.DEBUG, decision_trace.__name__):
        cell.claimer.place(order(cell, 3))
    selected = [record.getMessage() for record in caplog.records if "Selected" in record.getMessage()]
    assert [line.partition(":")[0] for line in selected] == [
        f"Selected for server {number} of 3" for number in (1, 2, 3)
    ]
    assert sum("ComputeFilter: " in record.getMessage() for record in caplog.records) == 2


def test_what_rules_and_drivers_log_bears_the_ids_of_the_request(cell_of: NewCell) -> None:
    told: list[str] = []

    class Talkative(Scheduler):
        def select_destinations(self, *_: Any) -> Any:
            told.append(str(request_context.current()))
            return [{"host": "node1", "nodename": None}]

    cell = cell_of(simulated("node1"), driver=OutsideDriver(Talkative(), Engine()))
    cell.claimer.place(order(cell))
    assert told == ["req-1 u p"]
    assert request_context.current() is None


def test_nobody_makes_lines_that_are_not_read(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, decision_trace.__name__):
        assert DecisionTrace.if_wanted(table(host("a"))) is None


def test_a_large_cloud_is_not_written_out(caplog: pytest.LogCaptureFixture) -> None:
    hosts = table(*(host(f"node{n:03}", disabled=n < 5) for n in range(300)))
    with caplog.at_level(logging.DEBUG, decision_trace.__name__):
        trace = DecisionTrace(hosts)
        Engine((), (ComputeFilter(),)).decide(hosts, with_resources(request()), limit=1, trace=trace)
        trace.log()
    lines = [record.getMessage() for record in caplog.records if "ComputeFilter" in record.getMessage()]
    assert len(lines) == decision_trace.MAX_HOSTS + 2
    assert sum("fails" in line for line in lines) == 5
    assert "200 hosts more" in lines[-2]
    assert "returned 295 of 300 hosts" in lines[-1]
    assert lines[-1].endswith(", …")
