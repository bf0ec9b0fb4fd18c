# SPDX-License-Identifier: Apache-2.0
"""Metrics of a whole control process: what a build leaves there, over the operator API and on a port of their own."""

import shutil
from pathlib import Path

import pytest
import requests
import sqlalchemy as sa
from prometheus_client.parser import text_string_to_metric_families

from kilonova.bundled_services.free_ports import free_port
from kilonova.clock import utc_now
from kilonova.db.core import tables as t
from kilonova.errors import Unavailable
from support.control import Control, NewControl, start_control
from support.waiting import wait_until


@pytest.fixture(scope="module")
def port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def measured(new_shared_control: NewControl, port: int) -> Control:
    return new_shared_control(more=f"[prometheus]\nmetrics_port = {port}\n")


def values(text: str) -> dict[str, float]:
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
            found[f"{sample.name}{{{labels}}}"] = sample.value
    return found


def test_a_build_and_a_delete_are_counted(measured: Control, port: int) -> None:
    server = measured.boot()
    measured.member.delete(f"/servers/{server['id']}")
    measured.settle()
    ended = "kilonova_workflows_finished_total{kind=delete,outcome=done}"  # counted after the journal has forgotten it
    wait_until(lambda: ended in values(measured.operator.get("/metrics").raw.decode()), "the delete is counted")
    answer = measured.operator.get("/metrics")
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/plain; version=")
    told = values(answer.raw.decode())
    assert told["kilonova_workflows_finished_total{kind=build,outcome=done}"] == 1
    assert told["kilonova_workflows_finished_total{kind=delete,outcome=done}"] == 1
    assert told["kilonova_workflow_step_seconds_count{direction=do,kind=build,step=claim}"] == 1
    for step in ("claim", "spawn"):
        seconds = told[f"kilonova_workflow_step_seconds_sum{{direction=do,kind=build,step={step}}}"]
        assert 0 < seconds < 10, step
    assert told["kilonova_servers_decided_total{}"] == 1
    assert told["kilonova_queue_length{queue=database writer}"] == 0
    assert told["kilonova_queue_length{queue=conductor urgent}"] == 0
    assert told["kilonova_database_answers{}"] == 1
    assert told["process_resident_memory_bytes{}"] > 10 * 2**20
    apart = requests.get(f"http://127.0.0.1:{port}/metrics", timeout=5)
    assert apart.status_code == 200
    assert set(values(apart.text)) == set(told)


def test_only_administrators_read_them_over_the_api(measured: Control) -> None:
    assert measured.operator.as_user("alice:wonder").get("/metrics").status == 403
    assert measured.operator.as_user("").get("/metrics").status == 401


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/", 404), ("GET", "/operator/v1/workflows", 404), ("POST", "/metrics", 405), ("HEAD", "/metrics", 200)],
)
def test_the_port_of_their_own_has_nothing_else(
    measured: Control, port: int, method: str, path: str, status: int
) -> None:
    assert measured.process.metrics_server is not None
    assert requests.request(method, f"http://127.0.0.1:{port}{path}", timeout=5).status_code == status


def test_without_a_port_nothing_listens(control: Control) -> None:
    assert control.process.metrics_server is None


def test_a_port_that_is_taken_is_named(sqlite_template: Path, tmp_path: Path, port: int, measured: Control) -> None:
    assert measured.process.metrics_server is not None
    shutil.copy(sqlite_template, tmp_path / "kilonova.db")
    with pytest.raises(Unavailable, match=r"\[prometheus\] metrics_host and metrics_port"):
        start_control(tmp_path, more=f"[prometheus]\nmetrics_port = {port}\n")


def test_what_is_counted_is_counted_on_a_replica_where_there_is_one(sqlite_template: Path, tmp_path: Path) -> None:
    """The replica of this test never hears of anything, so it is seen that it is asked."""
    shutil.copy(sqlite_template, tmp_path / "replica.db")
    replica = f"sqlite:///{tmp_path / 'replica.db'}"
    engine = sa.create_engine(replica)
    with engine.begin() as connection:
        row = {"host": "far", "instance_uuid": "u", "oddity": "unknown", "power_state": 1, "created_at": utc_now()}
        connection.execute(sa.insert(t.odd_guests), row)
    engine.dispose()
    (tmp_path / "cloud").mkdir()
    control = start_control(tmp_path / "cloud", more=f"[database]\nslave_connection = {replica}\n")
    try:
        control.add_flavor()
        control.boot()
        told = values(control.operator.get("/metrics").raw.decode())
        assert told["kilonova_stray_guests{reason=unknown}"] == 1
        assert control.operator.get("/strays").body["strays"] == []
    finally:
        control.process.close()
