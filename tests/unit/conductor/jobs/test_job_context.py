# SPDX-License-Identifier: Apache-2.0
import pytest

from kilonova.claims.present_cloud import PresentCloud
from kilonova.conductor.jobs.job_context import JobContext
from kilonova.db.database import Database
from kilonova.scheduler.engine.engine import Engine

pytestmark = pytest.mark.parametrize("kind", ["sqlite"], indirect=True)


def test_progress_is_reported_at_most_five_times_a_second_and_within_bounds(database: Database) -> None:
    told: list[tuple[float, str]] = []
    now = [0.0]
    context = JobContext(
        PresentCloud(database, Engine()), lambda done, text: told.append((done, text)), clock=lambda: now[0]
    )
    for number in range(100):
        now[0] = number / 100
        context.progress(number / 50, "some")
    assert told == [(0.0, "some"), (0.4, "some"), (0.8, "some"), (1.0, "some"), (1.0, "some")]


def test_the_progress_of_a_search_of_unknown_length_grows_and_never_reaches_the_end(database: Database) -> None:
    told: list[float] = []
    now = [0.0]
    context = JobContext(PresentCloud(database, Engine()), lambda done, _text: told.append(done), lambda: now[0])
    tell = context.search(0.5, "moves")
    for now[0] in (0.0, 10.0, 1000.0):
        tell()
    assert told[:2] == [0.5, 0.75]
    assert told[1] < told[2] < 1


def test_a_snapshot_names_the_change_log_number_that_it_holds_for(database: Database) -> None:
    context = JobContext(PresentCloud(database, Engine()), lambda _done, _text: None)
    first = context.snapshot()
    database.write(lambda tx: tx.log("process", "x", None))
    assert context.snapshot().seq == first.seq + 1
    assert len(first.hosts) == 0
