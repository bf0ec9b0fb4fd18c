# SPDX-License-Identifier: Apache-2.0
"""The Grafana dashboard: its structure, and the metrics and labels of its queries, which must exist at /metrics."""

import json
import re
from collections import defaultdict
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kilonova.conductor.workflow_engine.events import Phase, WorkflowEvent
from kilonova.db.shared_tasks import Finished
from kilonova.db.workflows import Count
from kilonova.metrics import Metrics, Sources

FILE = Path(__file__).parents[2] / "docs" / "grafana" / "kilonova.json"
BOARD: dict[str, Any] = json.loads(FILE.read_text())
PANELS: list[dict[str, Any]] = BOARD["panels"]
QUERIES = [(panel["title"], target["expr"]) for panel in PANELS for target in panel.get("targets", ())]
NOW = datetime.fromisoformat("2026-01-01T12:00:00")
#: Labels that Prometheus itself adds to each sample.
OF_PROMETHEUS = {"job", "instance"}
FUNCTIONS = {
    *("sum", "max", "min", "topk", "by", "rate", "histogram_quantile", "or", "vector"),
}


def told() -> dict[str, set[str]]:
    """Return the name of each sample at /metrics, with its labels."""
    metrics = Metrics()
    counts = {
        "capacity": Finished(NOW, {"m1": 3}),
        "stranded resources": Finished(NOW, {"VCPU": 0.25}),
        "n-plus-one": Finished(NOW, {"failing": 1, "complete": True}),
    }
    count = Count("build", "spawn", False, False, False, False, 2, NOW)
    metrics.watch(
        Sources(
            lambda: (NOW, [count]),
            lambda: 1,
            lambda: {"agents": 1},
            lambda: 1,
            lambda: {"unknown": 1},
            lambda: {"deleted": 1},
            lambda: counts,
        )
    )
    for phase in (Phase.DONE, Phase.BROKE, Phase.STEP_DONE):
        metrics.observe(
            WorkflowEvent(phase=phase, kind="build", step="spawn", instance_uuid="i", request_id="r", seconds=1.0)
        )
    metrics.decided(1, 0.1)
    metrics.plan_move_ended("done")
    metrics.hosts_removed({"RamFilter": 2})
    found = defaultdict(set)
    for family in text_string_to_metric_families(metrics.text()[0].decode()):
        for sample in family.samples:
            found[sample.name] |= set(sample.labels)
    return found


SAMPLES = told()


def read(expr: str) -> tuple[set[str], set[str]]:
    """Return the names of the metrics of a PromQL query, and the labels that it names."""
    plain = re.sub(r'"[^"]*"', '""', expr)
    labels = {name for group in re.findall(r"\bby \(([^)]*)\)", plain) for name in re.split(r",\s*", group)}
    labels |= {name for group in re.findall(r"\{([^}]*)\}", plain) for name in re.findall(r"(\w+)\s*[=!]", group)}
    bare = re.sub(r"\bby \([^)]*\)|\{[^}]*\}|\[[^\]]*\]", "", plain)
    return {name for name in re.findall(r"[a-zA-Z_]\w*", bare) if name not in FUNCTIONS}, labels


@pytest.mark.parametrize(("title", "expr"), QUERIES)
def test_metrics_and_labels_of_a_query_exist(title: str, expr: str) -> None:
    names, labels = read(expr)
    assert names, title
    assert names <= SAMPLES.keys(), f"no such metrics: {names - SAMPLES.keys()}"
    known = set().union(*(SAMPLES[name] for name in names)) | OF_PROMETHEUS
    assert labels <= known, f"no such labels: {labels - known}"


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])
def test_legends_name_labels_that_their_query_keeps(panel: dict[str, Any]) -> None:
    for target in panel.get("targets", ()):
        for name in re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]):
            kept = re.findall(r"\bby \(([^)]*)\)", target["expr"])
            assert name in (re.split(r",\s*", kept[0]) if kept else OF_PROMETHEUS)


def test_a_query_with_an_unknown_metric_or_label_is_found() -> None:
    assert read('sum by (le, kind) (rate(nonsense_total{job=~"$job", a!="b"}[5m]))') == (
        {"nonsense_total"},
        {"le", "kind", "job", "a"},
    )


def test_the_board_covers_what_operators_ask() -> None:
    shown = {name for _, expr in QUERIES for name in read(expr)[0]}
    own = {name for name in SAMPLES if name.startswith("kilonova_")}
    left_out = {name for name in own - shown if not name.endswith(("_created", "_sum", "_count"))}
    assert left_out == {"kilonova_notifications_sent_total", "kilonova_notifications_lost_total"}
    assert {panel["title"] for panel in PANELS if panel["type"] == "row"} >= {
        *("Decisions", "Workflows", "Agents", "Capacity")
    }


def test_the_board_has_the_structure_of_grafana() -> None:
    assert BOARD.keys() >= {"uid", "title", "schemaVersion", "panels", "templating", "time", "annotations"}
    assert isinstance(BOARD["schemaVersion"], int)
    assert len(BOARD["uid"]) <= 40
    variables = {each["name"]: each["type"] for each in BOARD["templating"]["list"]}
    assert variables == {"datasource": "datasource", "job": "query"}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(PANELS)))
    assert used <= variables.keys() | {"__rate_interval"}


def test_panels_have_ids_of_their_own_and_do_not_overlap() -> None:
    assert len({panel["id"] for panel in PANELS}) == len(PANELS)
    taken: set[tuple[int, int]] = set()
    for panel in PANELS:
        place = panel["gridPos"]
        assert place.keys() == {"h", "w", "x", "y"}
        assert 0 <= place["x"] <= place["x"] + place["w"] <= 24
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells


@pytest.mark.parametrize("panel", [each for each in PANELS if each["type"] != "row"], ids=lambda panel: panel["title"])
def test_a_panel_has_what_grafana_needs(panel: dict[str, Any]) -> None:
    assert panel["type"] in {"timeseries", "stat"}
    assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    assert panel["fieldConfig"].keys() == {"defaults", "overrides"}
    assert panel["fieldConfig"]["defaults"]["unit"]
    assert panel["description"]
    refs = [target["refId"] for target in panel["targets"]]
    assert refs == sorted(set(refs))
    assert refs
