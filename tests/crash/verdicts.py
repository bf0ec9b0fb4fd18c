# SPDX-License-Identifier: Apache-2.0
"""Kills of one course: the files that kills at its points leave, and what a new process makes of them.

One run of the course serves all kills: at each point the process stops, and its files are copied. They equal what
``kill -9`` leaves, because all that survives it is in files.
"""

import json
import shutil
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from crash.courses import Case, Course, KillPoints, Seen
from crash.ground import Ground, record, result_of, resume, resume_each
from crash.points import Point
from crash.processes import in_child

_AT_MOST_S = 45.0
#: Additional time for each further kill that a process resumes, in seconds.
_USUAL_S = 5.0

#: Takes a course and the points at which it may be killed, and returns those at which it is.
Choose = Callable[[Course, Sequence[Point]], Sequence[Point]]


@dataclass(frozen=True)
class Verdict:
    """Result of a case. ``problem``: the violation, or an empty string. ``missed``: the run never reached the point."""

    case: Case
    problem: str = ""
    missed: bool = False
    passed: tuple[Point, ...] = ()


@dataclass(frozen=True)
class Tried:
    """Results of a course. ``problem``: violation of the run without a kill. ``kills``: number of its kills.

    ``problems``: violations of kills. ``passed``: each point that a resuming process has passed → a kill before it.
    """

    course: Course
    seen: Seen | None = None
    problem: str = ""
    kills: int = 0
    problems: tuple[str, ...] = ()
    passed: tuple[tuple[Point, Point], ...] = ()

    @property
    def is_fine(self) -> bool:
        return not self.problem and not self.problems


def try_course(ground: Ground, course: Course, choose: Choose, number: int) -> Tried:
    """Kill a course at its points, restart each time, and check the state."""
    copies, made = ground.folder / "cases" / str(number), []
    plain = ground.seen.get(course.undisturbed)
    points = KillPoints(
        course, frozenset() if plain is None or course == course.undisturbed else frozenset(plain.points)
    )

    def copy(place: Path) -> None:
        made.append(copies / str(len(made)))
        shutil.copytree(place, made[-1])

    try:
        _, seen = record(ground, course, points, copy)
        if isinstance(seen, str):
            return Tried(course, problem=seen)
        ground.seen[course] = seen
        left_at = dict(zip(seen.stopped_at, made, strict=True))
        chosen = choose(course, points.of(seen.points))
        verdicts = _resumed(ground, {Case(course, point): left_at[point] for point in chosen})
    finally:
        shutil.rmtree(copies, ignore_errors=True)
    problems = tuple(f"{verdict.case}\n{verdict.problem}" for verdict in verdicts if verdict.problem)
    passed = {point: verdict.case.kill_at for verdict in verdicts for point in verdict.passed}
    return Tried(course, seen, kills=len(verdicts), problems=problems, passed=tuple(passed.items()))


def try_again(ground: Ground, case: Case, number: int) -> Verdict:
    """Kill a course at its point, kill the process that resumes it, restart, and check the state."""
    for aim in range(_AIMS):
        place = ground.folder / "cases" / f"{number}-{aim}"
        try:
            _, seen = record(ground, case.course, {case.kill_at}, partial(shutil.copytree, dst=place))
            if isinstance(seen, str):
                return Verdict(case, problem=f"in a run without a kill: {seen}")
            for verdict in _resumed(ground, {case: place}) if place.exists() else ():
                if not verdict.missed:
                    return verdict
        finally:
            shutil.rmtree(place, ignore_errors=True)
    return Verdict(case, missed=True)


#: Attempts for each second kill; thread timing can make a run miss its point.
_AIMS = 3


def _killed_again(case: Case, place: Path) -> str | None:
    """Kill the process that resumes a case.

    Returns the problem before this kill, or an empty string; None if the process never reached the point.
    """
    ended = in_child(partial(resume, place, case.course, case.again), at_most_s=_AT_MOST_S)
    if ended.error:
        return f"before the second kill: {ended.error}"
    return "" if ended.killed else None


def _resumed(ground: Ground, places: Mapping[Case, Path]) -> list[Verdict]:
    """Start a process on what each kill left, and check its final state."""
    found, begun = [], {case: _begun(place, case.course) for case, place in places.items()}
    left = []
    for case, place in places.items():
        problem = _killed_again(case, place) if case.again is not None else ""
        if problem == "":
            left.append(case)
        else:
            found.append(Verdict(case, problem or "", missed=problem is None))
    while left:
        work = partial(resume_each, [places[case] for case in left], left[0].course)
        ended = in_child(work, at_most_s=_AT_MOST_S + len(left) * _USUAL_S)
        done = [case for case in left if result_of(places[case]).exists()]
        found += [
            _verdict(ground, case, begun[case], *json.loads(result_of(places[case]).read_text())) for case in done
        ]
        left = left[len(done) :]
        if left and (ended.error or ended.killed):
            found.append(Verdict(left.pop(0), ended.error or "killed"))
    return found


def _verdict(ground: Ground, case: Case, begun: dict[str, Any], after: Any, points: Any, _stopped: Any) -> Verdict:
    worlds = ground.acceptable(case, begun)
    if after not in worlds:
        return Verdict(case, f"begun: {begun}\nthe world is\n  {after}\nnot one of\n  " + "\n  ".join(map(str, worlds)))
    return Verdict(case, passed=tuple(Point(*point) for point in points))


def _begun(place: Path, course: Course) -> dict[str, Any]:
    """Return from a killed process's journal which workflows were stored and whether the request was answered."""
    with closing(sqlite3.connect(place / "kilonova.db")) as connection:
        rows = connection.execute("SELECT kind FROM workflows").fetchall()
        deleted = connection.execute("SELECT count(*) FROM instances WHERE deleted").fetchone()[0]
    kinds = {kind for (kind,) in rows}
    answered = (place / "answered").exists()
    deletes = {"delete", "soft-delete"} & kinds - {course.kind}
    return {"main": course.kind in kinds, "delete": bool(deletes or deleted), "answered": answered}
