# SPDX-License-Identifier: Apache-2.0
"""Initial states of the courses of a matrix, and the child processes that run and resume courses on copies of them."""

import json
import os
import shutil
import threading
from collections.abc import Callable, Container, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from crash import cloud
from crash.courses import Case, Course, Seen
from crash.points import Point, Watch
from crash.processes import Ended, in_child
from crash.starters import INTERRUPTERS, Starter
from kilonova.conductor.workflow_engine.run import DELETES
from support.waiting import wait_until

_AT_MOST_S = 45.0

# --- in the child processes -------------------------------------------------------------------------------------------


def prepare(folder: Path, starter: Starter) -> list[str]:
    watch = Watch(armed=False)
    cell = cloud.open_cell(folder, starter.hosts, watch, piece=starter.piece, networks=starter.networks)
    known: list[str] = []
    for act in starter.before:
        act(cell, known)
        cloud.come_to_rest(cell)
    cloud.check(cell)
    (folder / "before.json").write_text(json.dumps([known, cloud.world(cell)]))
    cloud.close(cell)
    return known


def run(folder: Path, course: Course, stop_at: Container[Point] = ()) -> list[Any]:
    """Run a course. Returns the final state, the points passed, and those of ``stop_at`` at which it stopped."""
    known, _ = json.loads((folder / "before.json").read_text())
    watch, starter = course.watch(stop_at=stop_at), course.starts
    watch.armed = False
    cell = cloud.open_cell(folder, starter.hosts, watch, piece=starter.piece, networks=starter.networks)
    if course.why is not None:
        watch.interrupt = partial(_interrupt, cell, known, course)
    if starter.outside is not None:
        starter.outside(cell, known)
    watch.armed = True
    starter.begin(cell, known)
    (folder / "answered").touch()
    return _rest(cell, watch)


def _interrupt(cell: Any, known: list[str], course: Course) -> None:
    if course.loses:
        cell.bus.away.add(course.loses)
    assert course.why is not None
    INTERRUPTERS[course.why](cell, known)


def resume(folder: Path, course: Course, kill_at: Point | None = None) -> list[Any]:
    """Start a process on what a killed one left. Returns the final state and the points passed."""
    watch, starter = course.watch(kill_at), course.starts
    return _rest(cloud.open_cell(folder, starter.hosts, watch, piece=starter.piece, networks=starter.networks), watch)


def resume_each(folders: Sequence[Path], course: Course) -> None:
    """Resume what several kills left, one after the other; write each result beside its folder.

    All of them in one process take half of the processor time of a process for each: a new process first copies every
    page that it shares with its parent. The control processes themselves share nothing.
    """
    threads = threading.active_count()
    for folder in folders:
        watch, starter = course.watch(), course.starts
        cell = cloud.open_cell(folder, starter.hosts, watch, piece=starter.piece, networks=starter.networks)
        result_of(folder).write_text(json.dumps(_rest(cell, watch)))
        cloud.close(cell)
        wait_until(lambda: threading.active_count() <= threads, "all threads of the cloud to end", every_s=0.001)


def result_of(folder: Path) -> Path:
    """Return the file with the result of :func:`resume_each` for a folder."""
    return folder.with_suffix(".result")


def _rest(cell: Any, watch: Watch) -> list[Any]:
    cloud.come_to_rest(cell)
    if cell.bus.away:
        cell.bus.away.clear()
        cell.announce()
        cloud.come_to_rest(cell)
    cloud.check(cell)
    return [cloud.world(cell), watch.passed, watch.stopped_at]


# --- in the parent process --------------------------------------------------------------------------------------------


class Ground:
    """Folders with the initial states of courses, and the results of their undisturbed runs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.seen: dict[Course, Seen] = {}

    def prepare(self, course: Course) -> None:
        """Create the initial state of a course."""
        place = self._template(course)
        if not place.exists():
            place.mkdir(parents=True)
            shutil.copy(self.folder / "schema.db", place / "kilonova.db")
            _require(in_child(partial(prepare, place, course.starts), at_most_s=_AT_MOST_S), f"[{course}] before")

    def copy(self, course: Course, name: str) -> Path:
        place = self.folder / "cases" / name
        shutil.copytree(self._template(course), place)
        return place

    def _template(self, course: Course) -> Path:
        return self.folder / "templates" / f"{course.kind}-{course.starter}".replace(" ", "-")

    def acceptable(self, case: Case, begun: dict[str, Any]) -> list[Any]:
        """Return the states allowed after a kill. The initial state is allowed only if the request was not answered."""
        whole, plain = self.seen[case.course], self.seen[case.course.undisturbed]
        is_deleted = case.course.why in DELETES and begun["delete"]
        fails = case.course.breaks and begun["main"]
        worlds = [whole.after] if is_deleted or fails else [whole.after, plain.after]
        return worlds if begun["answered"] else [*worlds, whole.before]


def _require(ended: Ended, what: str) -> Any:
    assert not ended.error, f"{what}: {ended.error}"
    assert not ended.killed, f"{what}: was killed"
    return ended.found


def record(
    ground: Ground,
    course: Course,
    stop_at: Container[Point] = (),
    copied: Callable[[Path], object] = lambda _place: None,
) -> tuple[Course, Seen | str]:
    """Run a course without a kill; return the points passed, or the violation.

    ``copied``: called with the course's folder whenever the course stops at one of the points ``stop_at``.
    """
    place = ground.copy(course, f"run-{os.getpid()}")
    try:
        ended = in_child(partial(run, place, course, stop_at), at_most_s=_AT_MOST_S, stopped=partial(copied, place))
        if ended.error or ended.killed:
            return course, ended.error or "killed"
        after, points, stopped_at = ended.found
        before = json.loads((place / "before.json").read_text())[1]
        passed, stops = (tuple(Point(*point) for point in some) for some in (points, stopped_at))
        return course, Seen(passed, before, after, stops)
    finally:
        shutil.rmtree(place, ignore_errors=True)
