# SPDX-License-Identifier: Apache-2.0
"""The queue of jobs, with processes that do what their test says."""

import sys
import zlib
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import orjson
import psutil
import pytest
import sqlalchemy as sa

from kilonova.conductor.jobs.job_queue import JobLimits, JobQueue
from kilonova.db import host_agents, jobs
from kilonova.db.core import tables as t
from kilonova.db.database import Database
from kilonova.db.host_agents import Process
from kilonova.db.jobs import JobRow, NewJob
from kilonova.identifiers import new_uuid
from kilonova.model.job import JobState
from support.waiting import wait_until

pytestmark = pytest.mark.parametrize("kind", ["sqlite"], indirect=True)

_FRAMES = """
import json, os, sys, time, zlib
job = json.loads(sys.stdin.buffer.readline())
def send(letter, content):
    os.write(1, letter + len(content).to_bytes(4, "big") + content)
"""
ANSWERS = 'send(b"R", zlib.compress(json.dumps(job).encode()))'
HANGS = 'send(b"P", b"[0.5, \\"half\\"]"); time.sleep(60)'
NewQueue = Callable[..., JobQueue]


@pytest.fixture
def new_queue(database: Database) -> Iterator[NewQueue]:
    made: list[JobQueue] = []

    def start(script: str, *, owner: str = "me", may_act: bool = True, **limits: Any) -> JobQueue:
        alive(database, owner)
        command = [sys.executable, "-c", _FRAMES + script]
        made.append(JobQueue(database, owner, command, JobLimits(**limits), lambda: may_act))
        made[-1].start()
        return made[-1]

    yield start
    for queue in made:
        queue.stop()


def alive(database: Database, owner: str, lease: timedelta = timedelta(minutes=1)) -> None:
    database.write(lambda tx: host_agents.register(tx, Process(owner), (), lease))


def add(database: Database, prepared: Any = None, project_id: str = "home") -> str:
    job = NewJob(
        uuid=new_uuid(),
        kind="capacity",
        project_id=project_id,
        user_id="me",
        request_id="req",
        parameters={},
        prepared=prepared,
    )
    database.write(lambda tx: jobs.add(tx, job, most=100, most_of_project=100))
    return job.uuid


def found(database: Database, uuid: str) -> JobRow:
    with database.read() as connection:
        return jobs.get(connection, uuid)


def ended(database: Database, uuid: str) -> JobRow:
    wait_until(lambda: found(database, uuid).state.is_final, lambda: str(found(database, uuid)))
    return found(database, uuid)


def hanging(database: Database, uuid: str) -> None:
    wait_until(lambda: found(database, uuid).progress == 0.5, lambda: str(found(database, uuid)))


def test_jobs_run_in_their_order_and_large_parameters_arrive(database: Database, new_queue: NewQueue) -> None:
    large = {"text": "x" * 3_000_000}
    made = [add(database, large), add(database, {"text": "y"})]
    new_queue(ANSWERS).wake()
    first, second = (ended(database, uuid) for uuid in made)
    assert (first.state, second.state) == (JobState.DONE, JobState.DONE)
    assert first.finished_at is not None
    assert second.started_at is not None
    assert first.finished_at <= second.started_at, "one at a time"
    with database.read() as connection:
        packed = jobs.result_of(connection, made[0])
    assert packed is not None
    assert orjson.loads(zlib.decompress(packed)) == {"kind": "capacity", "parameters": large}


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("raise SystemExit(3)", "exit status 3"),
        ("os.kill(os.getpid(), 9)", "killed by SIGKILL"),
        ("os.write(1, b'nonsense')", "invalid data"),
        ("os.write(1, b'P\\0\\0\\0\\2{}')", "invalid data"),
        ("os.write(1, b'R\\xff\\xff\\xff\\xff'); time.sleep(60)", "invalid data"),
        ("send(b'F', b'no such host')", "no such host"),
        ("os.write(1, b'R\\0\\0\\0\\xffcut off')", "exit status 0"),
    ],
)
def test_a_process_that_ends_without_a_result_fails_its_job(
    database: Database, new_queue: NewQueue, script: str, reason: str
) -> None:
    queue = new_queue(script)
    uuid = add(database)
    queue.wake()
    job = ended(database, uuid)
    assert job.state is JobState.FAILED
    assert reason in (job.failure or "")
    wait_until(lambda: not queue.process_ids, "the process to be forgotten")


def test_a_program_that_cannot_be_started_fails_its_job(database: Database) -> None:
    alive(database, "me")
    uuid = add(database)
    queue = JobQueue(database, "me", ["/nowhere"], JobLimits())
    queue.start()
    try:
        assert "No such file" in (ended(database, uuid).failure or "")
    finally:
        queue.stop()


def test_a_job_that_takes_too_long_fails(database: Database, new_queue: NewQueue) -> None:
    new_queue(HANGS, longest_s=0.5)
    assert ended(database, add(database)).failure == "The job took longer than 0.5 s."


def test_a_cancelled_job_and_what_its_process_started_are_killed(database: Database, new_queue: NewQueue) -> None:
    queue = new_queue("import subprocess; subprocess.Popen(['sleep', '60']);" + HANGS)
    uuid = add(database)
    hanging(database, uuid)
    process = psutil.Process(queue.process_ids[uuid])
    (child,) = process.children()
    database.write(lambda tx: jobs.cancel_or_remove(tx, uuid))
    queue.wake()
    assert ended(database, uuid).state is JobState.CANCELLED
    wait_until(lambda: not process.is_running() and not child.is_running(), "the end of both processes")


def test_no_more_jobs_run_than_there_are_workers(database: Database, new_queue: NewQueue) -> None:
    made = [add(database) for _ in range(3)]
    queue = new_queue(HANGS, workers=2)
    for uuid in made[:2]:
        hanging(database, uuid)
    assert found(database, made[2]).state is JobState.QUEUED
    assert set(queue.process_ids) == set(made[:2])


def test_a_process_without_a_lease_begins_nothing(database: Database, new_queue: NewQueue) -> None:
    uuid = add(database)
    queue = new_queue(ANSWERS, may_act=False)
    queue.tidy()
    other = new_queue(ANSWERS, owner="other")
    other.wake()
    assert ended(database, uuid).owner == "other"


def test_a_job_whose_control_process_died_begins_again_once(database: Database, new_queue: NewQueue) -> None:
    uuids = [add(database), add(database), add(database)]
    for owner in ("dead", "dead too"):
        alive(database, owner)
    database.write(lambda tx: jobs.claim(tx, "dead", 3))
    database.write(lambda tx: jobs.cancel_or_remove(tx, uuids[1]))
    database.write(lambda tx: host_agents.end_leases(tx, ["dead"]))
    database.write(jobs.take_over)
    assert [found(database, uuid).state for uuid in uuids] == [JobState.QUEUED, JobState.CANCELLED, JobState.QUEUED]
    database.write(lambda tx: jobs.claim(tx, "dead too", 1))
    database.write(lambda tx: host_agents.end_leases(tx, ["dead too"]))
    queue = new_queue(ANSWERS)
    queue.tidy()
    assert ended(database, uuids[2]).state is JobState.DONE
    assert found(database, uuids[2]).attempt == 2
    lost = ended(database, uuids[0])
    assert lost.state is JobState.FAILED
    assert "control process" in (lost.failure or "")


def test_a_process_that_was_taken_for_dead_stops_its_job_and_stores_nothing(
    database: Database, new_queue: NewQueue
) -> None:
    queue = new_queue(HANGS)
    uuid = add(database)
    hanging(database, uuid)
    process = psutil.Process(queue.process_ids[uuid])
    database.write(lambda tx: tx.execute(sa.update(t.jobs).values(owner="other", attempt=2)))
    queue.wake()
    wait_until(lambda: not process.is_running(), "the end of the process")
    assert (found(database, uuid).owner, found(database, uuid).state) == ("other", JobState.RUNNING)


def test_a_job_that_was_claimed_and_not_begun_is_queued_again(database: Database, new_queue: NewQueue) -> None:
    uuid = add(database)
    database.write(lambda tx: jobs.claim(tx, "me", 1))
    new_queue(ANSWERS)
    assert ended(database, uuid).state is JobState.DONE


def test_finished_jobs_are_kept_by_number_and_age(database: Database, new_queue: NewQueue) -> None:
    queue = new_queue(ANSWERS, kept=2)
    made = [add(database) for _ in range(4)]
    queue.wake()
    for uuid in made:
        ended(database, uuid)
    waiting = add(database, project_id="other")
    ended(database, waiting)
    queue.tidy()
    with database.read() as connection:
        assert {row.uuid for row in jobs.list_page(connection)} == {made[3], waiting}
    long_ago = database.clock.now() - timedelta(days=8)
    database.write(
        lambda tx: tx.execute(sa.update(t.jobs).where(t.jobs.c.uuid == waiting).values(finished_at=long_ago))
    )
    queue.tidy()
    with database.read() as connection:
        assert {row.uuid for row in jobs.list_page(connection)} == {made[3]}
