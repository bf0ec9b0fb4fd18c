# SPDX-License-Identifier: Apache-2.0
import logging
import threading
import time

import pytest

from kilonova.clock import utc_now
from kilonova.errors import Unavailable
from kilonova.periodic import PeriodicPart, PeriodicTasks, PeriodicThread
from support.waiting import wait_until

LONG_S = 600.0


class Task:
    """Counts its turns; raises what it is told to."""

    def __init__(self, *failures: Exception) -> None:
        self.turns = 0
        self.failures = list(failures)

    def __call__(self) -> None:
        self.turns += 1
        if self.failures:
            raise self.failures.pop(0)


def test_a_task_is_done_again_and_again_until_it_is_stopped() -> None:
    task = Task()
    thread = PeriodicThread("t", task, 0.001, description="Test.", complaint="no")
    thread.start()
    wait_until(lambda: task.turns >= 3, "three turns")
    thread.stop()
    turns = task.turns
    time.sleep(0.02)
    assert task.turns == turns


def test_a_turn_that_takes_long_puts_the_next_one_off_by_as_much() -> None:
    begun: list[float] = []
    ended: list[float] = []

    def slowly() -> None:
        begun.append(time.monotonic())
        time.sleep(0.1)
        ended.append(time.monotonic())

    thread = PeriodicThread("t", slowly, 0.05, description="Test.", complaint="no", from_start=True)
    thread.start()
    wait_until(lambda: len(ended) >= 2, "two turns")
    thread.stop()
    assert begun[1] - ended[0] >= 0.05


@pytest.mark.parametrize("from_start", [True, False])
def test_the_first_turn_comes_at_once_or_after_the_first_wait(from_start: bool) -> None:
    task = Task()
    thread = PeriodicThread("t", task, LONG_S, description="Test.", complaint="no", from_start=from_start)
    thread.start()
    if from_start:
        wait_until(lambda: task.turns, "the first turn")
    else:
        time.sleep(0.02)
    thread.stop()
    assert task.turns == int(from_start)


def test_a_failure_is_told_and_the_next_turn_comes(caplog: pytest.LogCaptureFixture) -> None:
    away = Unavailable("The database cannot be reached.")
    task = Task(away, away, away, ZeroDivisionError())
    thread = PeriodicThread("t", task, 0.001, description="Test.", complaint="Nothing was swept")
    with caplog.at_level(logging.WARNING):
        thread.start()
        wait_until(lambda: task.turns >= 5, "a turn after the failures")
        thread.stop()
    one, broken = caplog.records
    assert (one.levelname, one.getMessage(), one.exc_info) == (
        "WARNING",
        "Nothing was swept: The database cannot be reached.",
        None,
    )
    assert (broken.levelname, broken.getMessage()) == ("ERROR", "Nothing was swept")
    assert broken.exc_info is not None


def test_a_task_that_rests_is_told_that_it_is_to_stop() -> None:
    resting, told = threading.Event(), []

    def task() -> None:
        resting.set()
        told.append(thread.rest(LONG_S))

    thread = PeriodicThread("t", task, LONG_S, description="Test.", complaint="no", from_start=True)
    thread.start()
    assert resting.wait(10)
    thread.stop()
    assert told == [True]


def test_one_that_never_started_may_be_stopped() -> None:
    task = Task()
    PeriodicThread("t", task, 0.0, description="Test.", complaint="no").stop()
    assert task.turns == 0


def test_a_task_tells_how_its_last_turn_went_and_when_the_next_one_is_due() -> None:
    task = Task(Unavailable("The database cannot be reached."), ZeroDivisionError())
    pauses = [0.001, 0.001, LONG_S]
    thread = PeriodicThread("t", task, lambda: pauses.pop(0), description="Test.", complaint="no", from_start=True)
    assert (thread.last_run.last_start, thread.last_run.next_start) == (None, None)
    before = utc_now()
    errors: list[str | None] = []
    task_of = thread._task
    thread._task = lambda: (errors.append(thread.last_run.last_error), task_of())
    thread.start()
    wait_until(lambda: task.turns == 3 and thread.last_run.interval_s == LONG_S, "three turns")
    run = thread.last_run
    thread.stop()
    assert errors == [None, "The database cannot be reached.", "ZeroDivisionError, see the log"]
    assert (run.name, run.description, run.is_running, run.last_error) == ("t", "Test.", False, None)
    assert run.last_start is not None
    assert run.next_start is not None
    assert before <= run.last_start
    assert (run.next_start - run.last_start).total_seconds() >= LONG_S
    assert run.last_duration_s is not None
    assert 0 <= run.last_duration_s < 60
    assert thread.last_run.next_start is None, "it was stopped"


def test_a_turn_under_way_is_shown_as_such() -> None:
    goes_on = threading.Event()
    thread = PeriodicThread("t", lambda: goes_on.wait(10), LONG_S, description="Test.", complaint="no", from_start=True)
    thread.start()
    wait_until(lambda: thread.last_run.is_running, "a turn")
    assert thread.last_run.last_start is not None
    assert (thread.last_run.last_duration_s, thread.last_run.next_start) == (None, None)
    goes_on.set()
    thread.stop()
    assert not thread.last_run.is_running


def test_the_register_lists_tasks_by_name_and_those_that_begin_later() -> None:
    def thread(name: str) -> PeriodicThread:
        return PeriodicThread(name, Task(), LONG_S, description="Test.", complaint="no")

    class Lazy:
        periodic_threads: tuple[PeriodicThread, ...] = ()

    tasks, lazy = PeriodicTasks(), Lazy()
    tasks.add(PeriodicPart("both", [thread("b"), thread("c")]))
    tasks.add(lazy)
    assert [run.name for run in tasks.runs()] == ["b", "c"]
    lazy.periodic_threads = (thread("a"),)
    assert [run.name for run in tasks.runs()] == ["a", "b", "c"]
