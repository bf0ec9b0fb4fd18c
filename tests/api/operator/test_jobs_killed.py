# SPDX-License-Identifier: Apache-2.0
"""Jobs of a control process that is killed."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from support.served import Served
from support.slow_rule import SLOW_RULE, slow_rule
from support.waiting import wait_until

FLAVORS = [{"name": f"of {number}", "vcpus": 1, "ram": number + 1} for number in range(1000)]


@pytest.fixture
def served(sqlite_template: Path, tmp_path: Path) -> Iterator[Served]:
    (tmp_path / "kilonova.db").write_bytes(sqlite_template.read_bytes())
    rules = f"[scheduler]\nplugin_path = {slow_rule(tmp_path)}\n[filter_scheduler]\nenabled_filters = {SLOW_RULE}"
    started = Served(tmp_path, rules=rules)
    started.start()
    yield started
    started.kill()


def shown(served: Served, uuid: str) -> dict[str, Any]:
    job: dict[str, Any] = served.call("GET", f"/operator/v1/jobs/{uuid}")[1]["job"]
    return job


def computing(served: Served, uuid: str) -> psutil.Process:
    wait_until(lambda: shown(served, uuid)["progress"], lambda: str(shown(served, uuid)), at_most_s=60)
    assert served.process is not None
    (process,) = [each for each in psutil.Process(served.process.pid).children() if "job-worker" in each.cmdline()]
    return process


def test_the_process_of_a_job_ends_with_its_control_process_and_the_job_begins_again_once(served: Served) -> None:
    body = {"kind": "capacity", "parameters": {"flavors": FLAVORS}}
    uuid = served.call("POST", "/operator/v1/jobs", body)[1]["job"]["id"]
    for attempt in (1, 2):
        process = computing(served, uuid)
        assert shown(served, uuid)["attempt"] == attempt
        served.kill()
        wait_until(lambda process=process: not process.is_running(), "the end of the job's process")
        served.start()
    wait_until(lambda: shown(served, uuid)["state"] == "failed", lambda: str(shown(served, uuid)), at_most_s=60)
    assert "control process" in shown(served, uuid)["failure"]
