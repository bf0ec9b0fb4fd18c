# SPDX-License-Identifier: Apache-2.0
"""``/operator/v1/health`` shows the checks and the periodic tasks to administrators."""

import gc
from pathlib import Path
from typing import Any

from kilonova.periodic import PeriodicThread
from support.api_client import Client, send
from support.control import Control, start_control
from support.waiting import wait_until


def healthcheck(control: Control) -> int:
    return send(control.process.application, "GET", "/healthcheck", b"", {}).status


def test_a_file_takes_a_process_out(tmp_path: Path) -> None:
    file = tmp_path / "drained"
    control = start_control(tmp_path, more=f"[healthcheck]\ndisable_by_file_path = {file}\n")
    try:
        assert healthcheck(control) == 200
        file.touch()
        assert healthcheck(control) == 503
        operator = control.operator
        told = operator.get("/health").body["health"]
        assert not told["healthy"]
        assert {each["name"]: each["problem"] for each in told["checks"]}["disable_by_file"] == f"{file} exists"
        assert operator.as_user("alice:wonder").get("/health").status == 403
        file.unlink()
        assert healthcheck(control) == 200
    finally:
        control.process.close()


def by_name(operator: Client) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in operator.get("/health").body["health"]["periodic_tasks"]}


def test_health_shows_every_periodic_task_of_the_process(tmp_path: Path) -> None:
    before = {each for each in gc.get_objects() if isinstance(each, PeriodicThread)}
    control = start_control(tmp_path)
    try:
        alive = [each for each in gc.get_objects() if isinstance(each, PeriodicThread) and each.is_alive]
        operator = control.operator
        wait_until(lambda: by_name(operator)["silence"]["last_start"], "a task has run")
        tasks = by_name(operator)
        assert {each.name for each in alive if each not in before} == set(tasks)
        assert {"leases", "checkpoints", "guest reports", "power states"} <= set(tasks)
        silence = tasks["silence"]
        assert silence["description"] == "Mark the services of silent processes as down."
        assert (silence["interval_s"], silence["last_error"]) == (5.0, None)
        assert silence["last_duration_s"] is not None
        assert tasks["guest reports"]["last_start"] is None
        assert tasks["guest reports"]["next_start"].endswith("Z")
        assert operator.as_user("alice:wonder").get("/health").status == 403
    finally:
        control.process.close()
    assert not any(each.is_alive for each in alive if each not in before)
