# SPDX-License-Identifier: Apache-2.0
"""The time for which a process has listened, without the times in which it could hear nothing."""

from datetime import datetime, timedelta

import pytest

from kilonova.conductor.hosts.service_liveness import Listening

NOON = datetime.fromisoformat("2026-05-01T12:00")
DOWN_TIME = timedelta(seconds=60)


class Process:
    """A process with a clock that the test advances. It checks every 5 seconds."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.listening = Listening(DOWN_TIME, lambda: self.now_s)

    def check(self, *, hears: bool = True) -> None:
        self.listening.note(NOON + timedelta(seconds=self.now_s), hears=hears)

    def run(self, seconds: float, *, hears: bool = True) -> None:
        for _ in range(int(seconds // 5)):
            self.now_s += 5
            self.check(hears=hears)


@pytest.fixture
def process() -> Process:
    made = Process()
    made.check()
    return made


def test_silence_counts_once_the_process_has_listened_for_the_whole_down_time(process: Process) -> None:
    assert Listening(DOWN_TIME).silent_since() is None
    process.run(55)
    assert process.listening.silent_since() is None
    process.run(5)
    assert process.listening.silent_since() == NOON
    process.run(20)
    assert process.listening.silent_since() == NOON + timedelta(seconds=20)


def test_times_without_the_broker_do_not_count(process: Process) -> None:
    process.run(55)
    process.run(100, hears=False)
    process.run(5)  # from now on it hears again
    assert process.listening.silent_since() is None
    process.run(5)
    assert process.listening.silent_since() == NOON


def test_the_time_in_which_the_process_itself_was_stopped_does_not_count(process: Process) -> None:
    process.run(55)
    process.now_s += 1000
    process.check()
    assert process.listening.silent_since() is None


def test_a_failed_check_is_a_time_in_which_nothing_was_heard(process: Process) -> None:
    process.run(55)
    process.listening.deaf()
    process.run(5)
    assert process.listening.silent_since() is None
    process.run(5)
    assert process.listening.silent_since() == NOON
