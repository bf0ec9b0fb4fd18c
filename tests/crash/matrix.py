# SPDX-License-Identifier: Apache-2.0
"""Crash matrix: every registered workflow is killed at every point of every step, and resumed by a new process.

Points are before and after each transaction and message, forwards and in rollbacks; a rollback comes from a failing
step or an interrupt. The resuming process is killed at its new points as well. The final state must be that of an
undisturbed run, or the state before; no workflow may be stuck.

python -m crash.matrix [--jobs N] [--sample N] [--seed N] [--only KIND] [--resume FILE]
"""

import argparse
import gc
import logging
import multiprocessing
import pickle
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from crash.courses import Case, Course, courses, uncovered
from crash.ground import Ground
from crash.points import Point, note_sending
from crash.verdicts import Tried, Verdict, try_again, try_course
from crash.warm_up import warm_up
from kilonova.conductor.workflows.registry import REGISTRY
from kilonova.db import schema
from kilonova.db.database import Database

_TELL_EVERY_S = 5.0
_SAMPLED_PER_COURSE = 6


@dataclass
class Report:
    """Counts of kills, missed points and violations; they are printed when they are added."""

    began: float = field(default_factory=time.monotonic)
    told: float = 0.0
    cases: int = 0
    missed: int = 0
    problems: int = 0

    def problem(self, text: str) -> None:
        self.problems += 1
        print(text, flush=True)

    def add(self, tried: Tried) -> None:
        self.cases += tried.kills
        if tried.problem:
            self.problem(f"VIOLATION [{tried.course}] without a kill: {tried.problem}")
        for problem in tried.problems:
            self.problem(f"VIOLATION {problem}")

    def add_again(self, verdict: Verdict) -> None:
        self.cases += 1
        if verdict.missed:
            self.missed += 1
            print(f"MISSED {verdict.case}: the process never reached the point", flush=True)
        if verdict.problem:
            self.problem(f"VIOLATION {verdict.case}\n{verdict.problem}")

    def tell(self, done: int, count: int) -> None:
        if time.monotonic() - self.told > _TELL_EVERY_S:
            self.told = time.monotonic()
            seconds = self.told - self.began
            print(f"matrix: {done} of {count} courses, {self.cases} kills ({seconds:.0f} s)", flush=True)


def run(folder: Path, options: argparse.Namespace) -> int:
    """Run the matrix and print the progress; return the number of violations."""
    report = Report()
    database = Database(f"sqlite:///{folder / 'schema.db'}")
    schema.upgrade(database)
    database.close()
    global _GROUND  # noqa: PLW0603
    _GROUND = ground = Ground(folder)
    wanted = _wanted(options)
    print(f"matrix: {len(REGISTRY)} workflows, {len(wanted)} courses, seed {options.seed}", flush=True)
    warm_up(folder / "schema.db")
    gc.freeze()
    with multiprocessing.get_context("fork").Pool(options.jobs) as pool:
        pool.map(ground.prepare, {(c.kind, c.starter): c.undisturbed for c in wanted}.values(), chunksize=1)
    # Two passes: the first finds the points of undisturbed courses, and the steps that wait for a host, so that the
    # second can interrupt them in that wait.
    plain = [course for course in wanted if course == course.undisturbed]
    results = _work(ground, plain, options, report)
    others = [course for course in wanted if course not in plain and course.undisturbed in ground.seen]
    results += _work(ground, others, options, report)
    passed = [point for tried in results for point, _ in tried.passed]
    if not options.sample:
        passed += _kill_again(ground, results, options, report)
        every = [point for tried in results if tried.seen is not None for point in tried.seen.points]
        for step in uncovered([*every, *passed], options.only):
            report.problem(f"NOT COVERED {step}: no course in starters.py reaches it")
    counts = f"{report.problems} violations, {report.missed} points missed"
    print(f"matrix: {report.cases} kills in {time.monotonic() - report.began:.0f} s, {counts}", flush=True)
    return report.problems


def _wanted(options: argparse.Namespace) -> list[Course]:
    """Return the courses to run: with ``--sample`` only some of them, and those that they are compared with."""
    wanted = [course for course in courses() if options.only in {None, course.kind}]
    if not options.sample:
        return wanted
    few = random.Random(options.seed).sample(wanted, min(len(wanted), max(1, options.sample // _SAMPLED_PER_COURSE)))
    return [course for course in wanted if course in few or any(course == each.undisturbed for each in few)]


def _work(ground: Ground, wanted: Sequence[Course], options: argparse.Namespace, report: Report) -> list[Tried]:
    """Kill some courses, except those whose results are kept; return the results of all of them."""
    kept = {tried.course: tried for tried in _kept(options) if tried.is_fine}
    results = [kept[course] for course in wanted if course in kept]
    left = [course for course in wanted if course not in kept]
    for tried in results:
        _take(ground, tried, report)
    # courses of the same kind last about as long, so mixed ones occupy all processes until the end
    random.Random(options.seed).shuffle(left)
    with multiprocessing.get_context("fork").Pool(options.jobs) as pool:
        count = options.sample // len(wanted) + 1 if options.sample else 0
        choose = partial(_choose, count, options.seed)
        for tried in pool.imap_unordered(partial(_try_course, choose), enumerate(left, len(results))):
            results.append(tried)
            _take(ground, tried, report)
            if options.resume is not None:
                with options.resume.open("ab") as file:
                    pickle.dump(tried, file)
            report.tell(len(results), len(wanted))
    return results


def _take(ground: Ground, tried: Tried, report: Report) -> None:
    report.add(tried)
    if tried.seen is not None:
        ground.seen[tried.course] = tried.seen
        if tried.course == tried.course.undisturbed:
            note_sending(list(tried.seen.points))


def _kept(options: argparse.Namespace) -> Iterator[Tried]:
    """Yield the results that an earlier run has kept."""
    if options.resume is not None and options.resume.exists():
        with options.resume.open("rb") as file:
            while file.peek(1):
                yield pickle.load(file)


def _choose(count: int, seed: int, course: Course, points: Sequence[Point]) -> Sequence[Point]:
    """Return some of the points of a course; all of them if ``count`` is 0."""
    if not count or len(points) <= count:
        return points
    return random.Random(f"{seed} {course}").sample(points, count)


def _kill_again(ground: Ground, results: Sequence[Tried], options: argparse.Namespace, report: Report) -> list[Point]:
    """Kill resuming processes too, once at each point that only they pass; return the points passed afterwards."""
    known = {point._replace(nth=0) for seen in ground.seen.values() for point in seen.points}
    again: dict[Point, Case] = {}
    for tried in results:
        for point, kill_at in tried.passed:
            plain = point._replace(nth=0)
            if plain.kind and plain not in known and plain not in again:
                again[plain] = Case(tried.course, kill_at, again=point)
    print(f"matrix: {len(again)} kills of a resuming process", flush=True)
    passed: list[Point] = []
    with multiprocessing.get_context("fork").Pool(options.jobs) as pool:
        for verdict in pool.imap_unordered(_try_again, enumerate(again.values())):
            report.add_again(verdict)
            passed += verdict.passed
    return passed


def _try_course(choose: partial[Sequence[Point]], work: tuple[int, Course]) -> Tried:
    assert _GROUND is not None
    number, course = work
    return try_course(_GROUND, course, choose, number)


def _try_again(work: tuple[int, Case]) -> Verdict:
    assert _GROUND is not None
    number, case = work
    return try_again(_GROUND, case, number)


#: Global, so that forked pool workers inherit it without serialization.
_GROUND: Ground | None = None


def main() -> int:
    logging.disable(logging.CRITICAL)  # the injected failures of steps would fill the log
    parser = argparse.ArgumentParser(prog="crash.matrix", description=__doc__)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--sample", type=int, default=0, help="run about this many kills, chosen by the seed")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=[*REGISTRY], help="run this workflow only")
    parser.add_argument(
        "--resume", type=Path, metavar="FILE", help="keep the results of courses in FILE, and skip those in it"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kilonova-matrix-") as folder:
        return int(run(Path(folder), options) > 0)


if __name__ == "__main__":
    sys.exit(main())
