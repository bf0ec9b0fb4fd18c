# SPDX-License-Identifier: Apache-2.0
"""Routes below /operator/v1/jobs, with real processes for the jobs."""

import os
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest

from kilonova.db import jobs
from kilonova.db.database import Database
from kilonova.model.job import JobState
from support.api_client import Answer
from support.control import IMAGE, Control, NewControl
from support.slow_rule import SLOW_RULE, slow_rule
from support.waiting import wait_until

ENDED = {"done", "failed", "cancelled"}


def started(control: Control, kind: str = "capacity", **parameters: Any) -> str:
    answer = control.operator.post("/jobs", {"kind": kind, "parameters": parameters})
    assert answer.status == 202, answer.body
    assert answer.body["job"]["state"] in {"queued", "running"}
    return str(answer.body["job"]["id"])


def shown(control: Control, uuid: str) -> dict[str, Any]:
    answer = control.operator.get(f"/jobs/{uuid}")
    assert answer.status == 200, answer.body
    job: dict[str, Any] = answer.body["job"]
    return job


def ended(control: Control, uuid: str) -> dict[str, Any]:
    wait_until(lambda: shown(control, uuid)["state"] in ENDED, lambda: f"an end of {shown(control, uuid)}")
    return shown(control, uuid)


def running(control: Control, uuid: str) -> psutil.Process:
    """Return the process of a job, once it computes."""
    wait_until(lambda: shown(control, uuid)["progress"], lambda: f"progress of {shown(control, uuid)}")
    (process,) = [each for each in psutil.Process().children() if "job-worker" in each.cmdline()]
    return process


@pytest.fixture(scope="module")
def quick(new_shared_control: NewControl) -> Control:
    return new_shared_control()


@pytest.fixture
def slow(new_control: NewControl, tmp_path: Path) -> Control:
    """A control process with a rule that takes 0.3 s for each request."""
    return new_control(
        more=f"[scheduler]\nplugin_path = {slow_rule(tmp_path)}\n[filter_scheduler]\nenabled_filters = {SLOW_RULE}\n"
    )


def many_flavors(count: int) -> list[dict[str, Any]]:
    return [{"name": f"of {number}", "vcpus": 1, "ram": number + 1} for number in range(count)]


def test_a_job_gives_the_answer_of_the_route_of_its_name(quick: Control) -> None:
    asked = {"flavors": ["flavor1", {"name": "big", "vcpus": 1, "ram": 10_000}], "image": IMAGE}
    job = ended(quick, started(quick, **asked))
    assert (job["state"], job["failure"], job["progress"], job["attempt"]) == ("done", None, 1.0, 1)
    assert job["result"] == quick.operator.post("/capacity", asked).body
    assert job["parameters"] == asked
    assert job["process"] == quick.process.conductor.owner
    assert job["created_at"] <= job["started_at"] <= job["finished_at"]


def test_a_job_counts_more_flavors_than_the_route(quick: Control) -> None:
    flavors = many_flavors(101)
    assert quick.operator.post("/capacity", {"flavors": flavors}).status == 400
    assert len(ended(quick, started(quick, flavors=flavors))["result"]["fits"]) == 101


def test_jobs_are_listed_newest_first_in_pages(quick: Control) -> None:
    made = [started(quick) for _ in range(3)]
    for each in made:
        ended(quick, each)
    first = quick.operator.get("/jobs?limit=2&kind=capacity&state=done").body
    assert [each["id"] for each in first["jobs"]] == made[:0:-1]
    assert "result" not in first["jobs"][0]
    (link,) = first["jobs_links"]
    assert f"marker={made[1]}" in link["href"]
    assert quick.operator.get(f"/jobs?marker={made[1]}").body["jobs"][0]["id"] == made[0]
    assert quick.operator.get("/jobs?state=failed").body == {"jobs": []}


def test_a_finished_job_is_removed(quick: Control) -> None:
    uuid = started(quick)
    ended(quick, uuid)
    assert quick.operator.delete(f"/jobs/{uuid}").status == 204
    assert [quick.operator.get(f"/jobs/{uuid}").status, quick.operator.delete(f"/jobs/{uuid}").status] == [404, 404]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (None, "object"),
        ({}, "kind"),
        ({"kind": "none"}, "kind"),
        ({"kind": "capacity", "parameters": []}, "parameters"),
        ({"kind": "capacity", "parameters": {"flavors": []}}, "flavors"),
        ({"kind": "capacity", "parameters": {"flavors": ["none"]}}, "flavors[0]"),
        ({"kind": "capacity", "parameters": {"flavors": ["1"] * 1001}}, "flavors"),
        ({"kind": "capacity", "parameters": {"image": "none"}}, "image"),
        ({"kind": "capacity", "parameters": {"hints": {"a": {"b": "c"}}}}, "hints"),
        ({"kind": "capacity", "parameters": {"image": {"id": "\0"}}}, "null character"),
        ({"kind": "capacity", "nonsense": 1}, "nonsense"),
        ({"kind": "capacity", "parameters": {"nonsense": 1}}, "nonsense"),
    ],
)
def test_bad_input_names_the_field_and_queues_nothing(quick: Control, body: Any, field: str) -> None:
    before = quick.operator.get("/jobs?limit=1").body
    answer = quick.operator.post("/jobs", body)
    assert answer.status == 400, answer.body
    assert field in answer.fault[1]
    assert quick.operator.get("/jobs?limit=1").body == before


@pytest.mark.parametrize("query", ["kind=none", "state=none", "marker=none", "marker=" + "0" * 36, "limit=-1", "a=1"])
def test_bad_queries_are_refused(quick: Control, query: str) -> None:
    answer = quick.operator.get(f"/jobs?{query}")
    assert answer.status == 400, answer.body
    assert query.partition("=")[0] in answer.fault[1]


def test_a_process_works_at_low_priority_reports_progress_and_is_cancelled(slow: Control) -> None:
    uuid = started(slow, flavors=many_flavors(50))
    process = running(slow, uuid)
    assert process.nice() == min(19, os.nice(0) + 10)
    assert Path(f"/proc/{process.pid}/oom_score_adj").read_text().strip() == "500"
    job = shown(slow, uuid)
    assert 0 < job["progress"] < 1
    assert job["message"].startswith("flavor of ")
    answer = slow.operator.delete(f"/jobs/{uuid}")
    assert (answer.status, answer.body["job"]["cancelling"]) == (202, True)
    job = ended(slow, uuid)
    assert (job["state"], job["cancelling"], job["result"]) == ("cancelled", False, None)
    wait_until(lambda: not process.is_running(), "the end of the process")


def test_a_killed_process_fails_its_job_with_the_reason(slow: Control) -> None:
    uuid = started(slow, flavors=many_flavors(50))
    os.kill(running(slow, uuid).pid, signal.SIGKILL)
    job = ended(slow, uuid)
    assert job["state"] == "failed"
    assert "killed by SIGKILL" in job["failure"]


def test_the_queue_is_bounded_for_each_project_and_in_total(new_control: NewControl) -> None:
    control = new_control(more="[operator]\njob_workers = 0\nmax_jobs = 3\nmax_jobs_per_project = 2\n")
    made = [started(control), started(control)]

    def refused(answer: Answer) -> str:
        assert (answer.status, answer.headers["retry-after"]) == (429, "10"), answer.body
        return str(answer.fault[1])

    body = {"kind": "capacity"}
    assert "project has 2" in refused(control.operator.post("/jobs", body))
    elsewhere = {"X-Project-Id": "elsewhere"}
    assert control.operator.post("/jobs", body, **elsewhere).status == 202
    assert "cloud has 3" in refused(control.operator.post("/jobs", body, **elsewhere))
    cancelled = control.operator.delete(f"/jobs/{made[0]}")
    assert (cancelled.status, cancelled.body["job"]["state"]) == (202, "cancelled")
    assert control.operator.post("/jobs", body).status == 202


def test_only_administrators_have_jobs(quick: Control) -> None:
    uuid = started(quick)
    ended(quick, uuid)
    member = type(quick.operator)(quick.process.application, "alice:wonder", api="operator")
    for answer in (
        member.post("/jobs", {"kind": "capacity"}),
        member.get("/jobs"),
        member.get(f"/jobs/{uuid}"),
        member.delete(f"/jobs/{uuid}"),
    ):
        assert answer.status == 403, answer.body


def test_a_job_of_a_control_process_that_stops_is_queued_again_and_its_process_ends(slow: Control) -> None:
    uuid = started(slow, flavors=many_flavors(50))
    process = running(slow, uuid)
    slow.process.close()
    assert not process.is_running()
    reopened = Database(slow.process.database.url.render_as_string(hide_password=False))
    try:
        with reopened.read() as connection:
            job = jobs.get(connection, uuid)
        assert (job.state, job.attempt, job.owner, job.progress) == (JobState.QUEUED, 0, None, 0.0)
    finally:
        reopened.close()
