# SPDX-License-Identifier: Apache-2.0
"""Crash matrix: every registered workflow is killed at every point of every step, and resumed by a new process.

Points are before and after each transaction and message, forwards and in rollbacks; a rollback comes from a failing
step or an interrupt. The resuming process is killed at its new points as well. The final state must be that of an
undisturbed run, or the state before; no workflow may be stuck.

python -m crash.matrix [--jobs N] [--sample N] [--seed N] [--only KIND]
"""

import argparse
import gc
import itertools
import json
import logging
import multiprocessing
import random
import shutil
import sqlite3
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from crash import cloud
from crash.courses import Case, Course, Seen, cases_of, courses, uncovered
from crash.points import Point, Watch, note_sending
from crash.processes import Ended, in_child
from crash.starters import INTERRUPTERS, Starter
from crash.warm_up import warm_up
from kilonova.conductor.workflow_engine.run import Interrupt
from kilonova.conductor.workflows.registry import REGISTRY
from kilonova.db import schema
from kilonova.db.database import Database

_AT_MOST_S = 45.0
_TELL_EVERY_S = 5.0
#: Attempts for each kill; thread timing can make a run miss the point.
_AIMS = 3
_SAMPLED_PER_COURSE = 6


@dataclass(frozen=True)
class Verdict:
    """Result of a case. ``problem``: the violation, or an empty string. ``missed``: the run never reached the point."""

    case: Case
    problem: str = ""
    missed: bool = False
    passed: tuple[Point, ...] = ()


# --- in the child processes -------------------------------------------------------------------------------------------


def _prepare(folder: Path, starter: Starter) -> list[str]:
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


def _run(folder: Path, course: Course, kill_at: Point | None) -> list[Any]:
    known, _ = json.loads((folder / "before.json").read_text())
    watch, starter = course.watch(kill_at), course.starts
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


def _repair(folder: Path, course: Course, kill_at: Point | None) -> list[Any]:
    watch, starter = course.watch(kill_at), course.starts
    return _rest(cloud.open_cell(folder, starter.hosts, watch, piece=starter.piece, networks=starter.networks), watch)


def _rest(cell: Any, watch: Watch) -> list[Any]:
    cloud.come_to_rest(cell)
    if cell.bus.away:
        cell.bus.away.clear()
        cell.announce()
        cloud.come_to_rest(cell)
    cloud.check(cell)
    return [cloud.world(cell), watch.passed]


# --- in the parent process --------------------------------------------------------------------------------------------


class Ground:
    """Folders with the initial states of courses, and the results of their undisturbed runs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.seen: dict[Course, Seen] = {}
        self._numbers = itertools.count()

    def prepare(self, course: Course) -> None:
        """Create the initial state of a course."""
        place = self._template(course)
        if not place.exists():
            place.mkdir(parents=True)
            shutil.copy(self.folder / "schema.db", place / "kilonova.db")
            _require(in_child(partial(_prepare, place, course.starts), at_most_s=_AT_MOST_S), f"[{course}] before")

    def copy(self, course: Course, name: str) -> Path:
        place = self.folder / "cases" / name
        shutil.copytree(self._template(course), place)
        return place

    def _template(self, course: Course) -> Path:
        return self.folder / "templates" / f"{course.kind}-{course.starter}".replace(" ", "-")

    def acceptable(self, case: Case, begun: dict[str, Any]) -> list[Any]:
        """Return the states allowed after a kill. The initial state is allowed only if the request was not answered."""
        whole, plain = self.seen[case.course], self.seen[case.course.undisturbed]
        is_deleted = case.course.why is Interrupt.DELETE and begun["delete"]
        fails = case.course.breaks and begun["main"]
        worlds = [whole.after] if is_deleted or fails else [whole.after, plain.after]
        return worlds if begun["answered"] else [*worlds, whole.before]


def _require(ended: Ended, what: str) -> Any:
    assert not ended.error, f"{what}: {ended.error}"
    assert not ended.killed, f"{what}: was killed"
    return ended.found


def record(ground: Ground, course: Course) -> tuple[Course, Seen | str]:
    """Run a course without a kill; return the points passed, or the violation."""
    place = ground.copy(course, f"whole-{abs(hash(course))}")
    try:
        ended = in_child(partial(_run, place, course, None), at_most_s=_AT_MOST_S)
        if ended.error or ended.killed:
            return course, ended.error or "killed"
        after, points = ended.found
        before = json.loads((place / "before.json").read_text())[1]
        return course, Seen(tuple(Point(*point) for point in points), before, after)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def try_case(ground: Ground, case: Case, number: int) -> Verdict:
    """Kill a course, restart, and check the state."""
    for aim in range(_AIMS):
        place = ground.copy(case.course, f"{number}-{aim}")
        try:
            verdict = _try_once(ground, case, place)
        finally:
            shutil.rmtree(place, ignore_errors=True)
        if not verdict.missed:
            return verdict
    return verdict


def _try_once(ground: Ground, case: Case, place: Path) -> Verdict:
    ended = in_child(partial(_run, place, case.course, case.kill_at), at_most_s=_AT_MOST_S)
    if ended.error:
        return Verdict(case, f"before the kill: {ended.error}")
    if not ended.killed:
        return Verdict(case, missed=True)
    begun = _begun(place, case.course)
    if case.again is not None:
        ended = in_child(partial(_repair, place, case.course, case.again), at_most_s=_AT_MOST_S)
        if ended.error:
            return Verdict(case, f"before the second kill: {ended.error}")
        if not ended.killed:
            return Verdict(case, missed=True)
    ended = in_child(partial(_repair, place, case.course, None), at_most_s=_AT_MOST_S)
    if ended.error:
        return Verdict(case, ended.error)
    after, points = ended.found
    passed = tuple(Point(*point) for point in points)
    worlds = ground.acceptable(case, begun)
    if after not in worlds:
        return Verdict(case, f"begun: {begun}\nthe world is\n  {after}\nnot one of\n  " + "\n  ".join(map(str, worlds)))
    return Verdict(case, passed=passed)


def _begun(place: Path, course: Course) -> dict[str, Any]:
    """Return from a killed process's journal which workflows were stored and whether the request was answered."""
    connection = sqlite3.connect(place / "kilonova.db")
    try:
        rows = connection.execute("SELECT kind FROM workflows").fetchall()
        deleted = connection.execute("SELECT count(*) FROM instances WHERE deleted").fetchone()[0]
    finally:
        connection.close()
    kinds = {kind for (kind,) in rows}
    answered = (place / "answered").exists()
    return {"main": course.kind in kinds, "delete": "delete" in kinds or bool(deleted), "answered": answered}


# --- the whole matrix -------------------------------------------------------------------------------------------------


@dataclass
class Report:
    """Counts of kills, missed points and violations."""

    cases: int = 0
    missed: int = 0
    problems: int = 0


def run(folder: Path, options: argparse.Namespace) -> int:
    """Run the matrix and print the progress; return the number of violations."""
    began = time.monotonic()
    database = Database(f"sqlite:///{folder / 'schema.db'}")
    schema.upgrade(database)
    database.close()
    global _GROUND  # noqa: PLW0603
    _GROUND = ground = Ground(folder)
    wanted = [course for course in courses() if options.only in {None, course.kind}]
    if options.sample:
        few = random.Random(options.seed).sample(
            wanted, min(len(wanted), max(1, options.sample // _SAMPLED_PER_COURSE))
        )
        wanted = [course for course in wanted if course in few or any(course == each.undisturbed for each in few)]
    warm_up(folder / "schema.db")
    gc.freeze()
    with multiprocessing.get_context("fork").Pool(options.jobs) as pool:
        pool.map(ground.prepare, {(c.kind, c.starter): c.undisturbed for c in wanted}.values(), chunksize=1)
    report = Report()
    # Two passes: the first finds the steps that wait for a host, so that the second can interrupt them in that wait.
    plain = [course for course in wanted if course == course.undisturbed]
    for some in (plain, [course for course in wanted if course not in plain]):
        with multiprocessing.get_context("fork").Pool(options.jobs) as pool:
            for course, seen in pool.imap_unordered(_record, some):
                if isinstance(seen, str):
                    report.problems += 1
                    print(f"VIOLATION [{course}] without a kill: {seen}", flush=True)
                else:
                    ground.seen[course] = seen
                    note_sending(list(seen.points))
    ordered = {course: ground.seen[course] for course in wanted if course in ground.seen}
    ordered = {c: s for c, s in ordered.items() if c.undisturbed in ordered}
    every = [point for seen in ordered.values() for point in seen.points]
    cases = cases_of(ordered)
    print(f"matrix: {len(REGISTRY)} workflows, {len(ordered)} courses, {len(cases)} kills", flush=True)
    if options.sample:
        cases = random.Random(options.seed).sample(cases, min(options.sample, len(cases)))
        print(f"matrix: {len(cases)} kills chosen, seed {options.seed}", flush=True)
    passed = _work(ground, cases, options, report, began)
    again = _second_kills(ordered, passed)
    if again and not options.sample:
        print(f"matrix: {len(again)} kills of a resuming process", flush=True)
        passed += _work(ground, again, options, report, began)
    every += [point for verdict in passed for point in verdict.passed]
    if not options.sample:
        for step in uncovered(every, options.only):
            report.problems += 1
            print(f"NOT COVERED {step}: no course in starters.py reaches it", flush=True)
    taken = time.monotonic() - began
    print(
        f"matrix: {report.cases} kills in {taken:.0f} s, {report.problems} violations, {report.missed} points missed",
        flush=True,
    )
    return report.problems


def _second_kills(seen: dict[Course, Seen], passed: Sequence[Verdict]) -> list[Case]:
    """Return second kills at points that only resuming processes pass, one for each point."""
    known = {point._replace(nth=0) for each in seen.values() for point in each.points}
    again: dict[Point, Case] = {}
    for verdict in passed:
        for point in verdict.passed:
            plain = point._replace(nth=0)
            if plain.kind and plain not in known and plain not in again:
                again[plain] = replace(verdict.case, again=point)
    return list(again.values())


def _work(
    ground: Ground, cases: Sequence[Case], options: argparse.Namespace, report: Report, began: float
) -> list[Verdict]:
    told, verdicts = time.monotonic(), []
    with multiprocessing.get_context("fork").Pool(options.jobs) as pool:
        numbered = [(case, report.cases + number) for number, case in enumerate(cases)]
        for verdict in pool.imap_unordered(_try_numbered, numbered):
            verdicts.append(verdict)
            report.cases += 1
            report.missed += verdict.missed
            if verdict.missed:
                print(f"MISSED {verdict.case}: the process never reached the point", flush=True)
            if verdict.problem:
                report.problems += 1
                print(f"VIOLATION {verdict.case}\n{verdict.problem}", flush=True)
            if time.monotonic() - told > _TELL_EVERY_S:
                told = time.monotonic()
                print(f"matrix: {len(verdicts)} of {len(cases)} kills ({told - began:.0f} s)", flush=True)
    return verdicts


def _record(course: Course) -> tuple[Course, Seen | str]:
    assert _GROUND is not None
    return record(_GROUND, course)


def _try_numbered(work: tuple[Case, int]) -> Verdict:
    assert _GROUND is not None
    return try_case(_GROUND, *work)


#: Global, so that forked pool workers inherit it without serialization.
_GROUND: Ground | None = None


def main() -> int:
    logging.disable(logging.CRITICAL)  # the injected failures of steps would fill the log
    parser = argparse.ArgumentParser(prog="crash.matrix", description=__doc__)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--sample", type=int, default=0, help="run this many kills, chosen by the seed, instead of all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=[*REGISTRY], help="run this workflow only")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kilonova-matrix-") as folder:
        return int(run(Path(folder), options) > 0)


if __name__ == "__main__":
    sys.exit(main())
