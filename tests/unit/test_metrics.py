# SPDX-License-Identifier: Apache-2.0
"""What is counted and what is looked up, read with the parser of the Prometheus client."""

import threading
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kilonova.conductor.workflow_engine.events import Phase, WorkflowEvent
from kilonova.db.workflows import Count
from kilonova.errors import Unavailable
from kilonova.metrics import KEPT_S, Metrics, Sources

NOW = datetime.fromisoformat("2026-01-01T12:00:00")
Samples = Mapping[tuple[str, frozenset[tuple[str, str]]], float]


def samples(metrics: Metrics) -> Samples:
    text, media_type = metrics.text()
    assert media_type.startswith("text/plain; version=")
    families = text_string_to_metric_families(text.decode())
    found = [(each.name, frozenset(each.labels.items()), each.value) for family in families for each in family.samples]
    by_name = {(name, labels): value for name, labels, value in found}
    assert len(by_name) == len(found), "a sample is told once"
    return by_name


def of(metrics: Metrics, name: str, **labels: str) -> float | None:
    return samples(metrics).get((name, frozenset(labels.items())))


def event(phase: Phase, **more: object) -> WorkflowEvent:
    return WorkflowEvent(phase=phase, kind="resize", step="finish", instance_uuid="i", request_id="req", **more)  # type: ignore[arg-type]


class Cloud:
    """Counts how often it is asked."""

    def __init__(self, *counted: Count) -> None:
        self.counted: Sequence[Count] = counted
        self.questions = 0
        self.is_away = False
        self.now = 0.0

    def under_way(self) -> tuple[datetime, Sequence[Count]]:
        self.questions += 1
        if self.is_away:
            raise Unavailable("The database is away.")
        return NOW, self.counted

    def watched(self) -> Metrics:
        metrics = Metrics()
        queues, strays, ports = {"agents move": 2}, {"unknown": 3}, {"deleted": 4, "missing": 0}
        sources = Sources(self.under_way, lambda: 3, lambda: queues, lambda: 7, lambda: strays, lambda: ports)
        metrics.watch(sources, clock=lambda: self.now)
        return metrics


def test_ends_by_kind_and_outcome() -> None:
    metrics = Metrics()
    for phase in (Phase.DONE, Phase.DONE, Phase.FAILED, Phase.INTERRUPTED, Phase.STUCK):
        metrics.observe(event(phase))
    outcomes = {outcome: of(metrics, "kilonova_workflows_finished_total", kind="resize", outcome=outcome)
                for outcome in ("done", "failed", "interrupted", "stuck")}  # fmt: skip
    assert outcomes == {"done": 2, "failed": 1, "interrupted": 1, "stuck": 1}


def test_seconds_of_steps_and_of_their_undoing() -> None:
    metrics = Metrics()
    metrics.observe(event(Phase.STEP_DONE, seconds=2.0))
    metrics.observe(event(Phase.DONE, seconds=4.0))
    metrics.observe(event(Phase.STEP_DONE, seconds=0.5, undoing=True))
    labels = {"kind": "resize", "step": "finish", "direction": "do"}
    assert of(metrics, "kilonova_workflow_step_seconds_count", **labels) == 2
    assert of(metrics, "kilonova_workflow_step_seconds_sum", **labels) == 6
    assert of(metrics, "kilonova_workflow_step_seconds_bucket", **labels, le="3.0") == 1
    labels["direction"] = "undo"
    assert of(metrics, "kilonova_workflow_step_seconds_sum", **labels) == 0.5


def test_a_step_that_broke_is_a_retry_and_no_end() -> None:
    metrics = Metrics()
    metrics.observe(event(Phase.BROKE, seconds=1.0))
    assert of(metrics, "kilonova_workflow_retries_total", kind="resize", step="finish") == 1
    assert not [name for name, _ in samples(metrics) if name.startswith("kilonova_workflow_step_seconds")]


def test_decisions_and_lost_claims() -> None:
    metrics = Metrics()
    metrics.decided(5, 0.25)
    metrics.decided(1, 0.25)
    metrics.claim_lost()
    metrics.plan_move_ended("done")
    assert of(metrics, "kilonova_plan_moves_total", outcome="done") == 1
    assert of(metrics, "kilonova_decision_seconds_count") == 2
    assert of(metrics, "kilonova_decision_seconds_sum") == 0.5
    assert of(metrics, "kilonova_servers_decided_total") == 6
    assert of(metrics, "kilonova_claims_lost_total") == 1


def test_what_is_under_way_by_state() -> None:
    begun = NOW - timedelta(seconds=90)
    metrics = Cloud(
        Count("build", "spawn", False, False, False, False, 4, begun),
        Count("resize", "finish", True, True, False, False, 1, begun),
        Count("resize", "finish", False, True, False, False, 2, begun - timedelta(seconds=10)),
        Count("delete", "destroy", False, False, True, False, 1, begun),
    ).watched()
    labels = {"kind": "resize", "step": "finish", "state": "stuck"}
    assert of(metrics, "kilonova_workflows", kind="build", step="spawn", state="doing") == 4
    assert of(metrics, "kilonova_workflows", kind="delete", step="destroy", state="waiting") == 1
    assert of(metrics, "kilonova_workflows", **labels) == 3
    assert of(metrics, "kilonova_oldest_workflow_seconds", **labels) == 100
    assert of(metrics, "kilonova_queue_length", queue="database writer") == 3
    assert of(metrics, "kilonova_queue_length", queue="agents move") == 2
    assert of(metrics, "kilonova_workflows_waiting_for_agents") == 7
    assert of(metrics, "kilonova_database_answers") == 1


def test_a_flood_of_scrapes_asks_the_database_once() -> None:
    cloud = Cloud()
    metrics = cloud.watched()
    cloud.questions = 0
    threads = [threading.Thread(target=metrics.text) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert cloud.questions <= 1
    cloud.now += KEPT_S
    for _ in range(10):
        metrics.text()
    assert cloud.questions <= 2


def test_without_a_database_the_rest_is_told() -> None:
    cloud = Cloud(Count("build", "spawn", False, False, False, False, 4, NOW))
    cloud.is_away = True
    metrics = cloud.watched()
    cloud.now += KEPT_S
    metrics.decided(1, 0.1)
    assert of(metrics, "kilonova_database_answers") == 0
    assert of(metrics, "kilonova_workflows", kind="build", step="spawn", state="doing") is None
    assert of(metrics, "kilonova_servers_decided_total") == 1
    cloud.is_away = False
    cloud.now += KEPT_S
    assert of(metrics, "kilonova_workflows", kind="build", step="spawn", state="doing") == 4


def test_two_processes_have_nothing_in_common() -> None:
    one, other = Metrics(), Metrics()
    one.claim_lost()
    assert of(other, "kilonova_claims_lost_total") == 0


@pytest.mark.parametrize(
    ("accept", "expected"),
    [("application/openmetrics-text;version=1.0.0", "application/openmetrics-text"), ("*/*", "text/plain")],
)
def test_the_format_is_the_one_that_the_client_accepts(accept: str, expected: str) -> None:
    assert Metrics().text(accept)[1].startswith(expected)
