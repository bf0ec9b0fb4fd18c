# SPDX-License-Identifier: Apache-2.0
import logging
from collections.abc import Callable

import pytest

from kilonova.periodic import PeriodicPart, PeriodicThread
from kilonova.process_parts import PartOf, ProcessParts


class Diary:
    """Notes what is started and stopped. ``fails``: the entries at which an error is raised."""

    def __init__(self, *fails: str) -> None:
        self.entries: list[str] = []
        self.fails = fails

    def note(self, entry: str) -> Callable[[], None]:
        def act() -> None:
            self.entries.append(entry)
            if entry in self.fails:
                raise RuntimeError(entry)

        return act

    def part(self, name: str) -> PartOf:
        return PartOf(name, self.note(f"+{name}"), self.note(f"-{name}"))


def start(diary: Diary, *names: str) -> ProcessParts:
    parts = ProcessParts()
    with parts.stopped_on_failure():
        for name in names:
            parts.start(diary.part(name))
    return parts


def test_parts_stop_in_reverse_and_only_once() -> None:
    diary = Diary()
    parts = start(diary, "database", "bus", "timer")
    parts.opened("metrics", diary.note("-metrics"))
    parts.stop()
    parts.stop()
    assert diary.entries == ["+database", "+bus", "+timer", "-metrics", "-timer", "-bus", "-database"]


def test_a_start_that_fails_halfway_stops_what_had_started_and_keeps_its_error() -> None:
    diary = Diary("+timer", "-bus")
    with pytest.raises(RuntimeError, match=r"\+timer"):
        start(diary, "database", "bus", "timer", "metrics")
    assert diary.entries == ["+database", "+bus", "+timer", "-timer", "-bus", "-database"]


def test_a_start_that_is_interrupted_stops_what_had_started() -> None:
    diary, parts = Diary(), ProcessParts()
    with pytest.raises(KeyboardInterrupt), parts.stopped_on_failure():
        parts.start(diary.part("database"))
        raise KeyboardInterrupt
    assert diary.entries == ["+database", "-database"]


def test_stopping_goes_on_when_a_part_cannot_be_stopped(caplog: pytest.LogCaptureFixture) -> None:
    diary = Diary("-bus")
    parts = start(diary, "database", "bus", "timer")
    with caplog.at_level(logging.ERROR):
        parts.stop()
    assert diary.entries[3:] == ["-timer", "-bus", "-database"]
    (told,) = caplog.records
    assert told.getMessage() == "Part bus of this process could not be stopped"
    assert told.exc_info is not None


def test_the_periodic_threads_of_parts_are_registered() -> None:
    thread = PeriodicThread("sweep", lambda: None, 600.0, description="Sweep.", complaint="Nothing was swept")
    parts = start(Diary(), "database")
    parts.start(PeriodicPart("sweeper", [thread]))
    parts.start(PeriodicPart("switched off", []))
    try:
        assert parts.tasks.periodic_threads == (thread,)
        assert thread.is_alive
    finally:
        parts.stop()
    assert not thread.is_alive
