# SPDX-License-Identifier: Apache-2.0
import logging
import threading
import time

import pytest

from kilonova.errors import Unavailable
from kilonova.periodic import PeriodicThread
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
    thread = PeriodicThread("t", task, 0.001, complaint="no")
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

    thread = PeriodicThread("t", slowly, 0.05, complaint="no", from_start=True)
    thread.start()
    wait_until(lambda: len(ended) >= 2, "two turns")
    thread.stop()
    assert begun[1] - ended[0] >= 0.05


@pytest.mark.parametrize("from_start", [True, False])
def test_the_first_turn_comes_at_once_or_after_the_first_wait(from_start: bool) -> None:
    task = Task()
    thread = PeriodicThread("t", task, LONG_S, complaint="no", from_start=from_start)
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
    thread = PeriodicThread("t", task, 0.001, complaint="Nothing was swept")
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

    thread = PeriodicThread("t", task, LONG_S, complaint="no", from_start=True)
    thread.start()
    assert resting.wait(10)
    thread.stop()
    assert told == [True]


def test_one_that_never_started_may_be_stopped() -> None:
    task = Task()
    PeriodicThread("t", task, 0.0, complaint="no").stop()
    assert task.turns == 0
