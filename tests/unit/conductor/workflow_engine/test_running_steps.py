# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from kilonova.conductor.workflow_engine import running_steps
from kilonova.conductor.workflow_engine.running_steps import events_under_way
from kilonova.conductor.workflows.registry import REGISTRY
from kilonova.conductor.workflows.stop import STOP, StopFacts
from kilonova.db.workflows import WorkflowRow

SINCE = datetime.fromisoformat("2026-05-01T12:00")
ROW = replace(
    STOP.first_row(
        WorkflowRow(uuid="w", kind="stop", instance_uuid="i", reservation_id="", request_id="req-1", step=""),
        StopFacts("node1"),
    ),
    since=SINCE,
    waiting=False,
)


def events(monkeypatch: pytest.MonkeyPatch, *rows: WorkflowRow) -> list[tuple[str, str | None]]:
    monkeypatch.setattr(running_steps.workflows, "of_instance", lambda _connection, _uuid: rows)
    connection: Any = None
    return [(event.event, event.host) for event in events_under_way(connection, REGISTRY, "i", "req-1")]


def test_the_present_step_is_an_event_that_has_not_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running_steps.workflows, "of_instance", lambda _connection, _uuid: (ROW,))
    connection: Any = None
    (event,) = events_under_way(connection, REGISTRY, "i", "req-1")
    assert (event.event, event.host, event.started_at) == ("compute_stop_instance", "node1", SINCE)


@pytest.mark.parametrize(
    "changed",
    [
        {"undoing": True},
        {"stuck": True},
        {"waiting": True},
        {"request_id": "req-2"},
        {"kind": "later"},
        {"step": "later"},
    ],
    ids=str,
)
def test_a_step_that_is_not_being_done_for_this_request_is_none(
    monkeypatch: pytest.MonkeyPatch, changed: dict[str, Any]
) -> None:
    assert events(monkeypatch, replace(ROW, **changed)) == []


def test_facts_of_a_later_release_name_no_host(monkeypatch: pytest.MonkeyPatch) -> None:
    assert events(monkeypatch, replace(ROW, facts={"version": 99})) == [("compute_stop_instance", None)]
