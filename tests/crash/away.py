# SPDX-License-Identifier: Apache-2.0
"""Away matrix: in every step of every workflow, the agent of the host dies or freezes, and comes back soon or late.

"Soon": before a control process notices. "Late": after the workflow has rolled back what it can without the host. The
final state must be that of an undisturbed run, that of the same workflow when this step fails, or the state before;
nothing may be left on any host.

python -m crash.away [--jobs N] [--sample N] [--seed N] [--only KIND]
"""

import argparse
import gc
import json
import logging
import multiprocessing
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from crash import cloud
from crash.absent_host import AbsentHostBus, Lost, Manner
from crash.courses import Course, Seen, courses
from crash.ground import Ground, record
from crash.points import Moment, note_sending
from crash.processes import in_child
from crash.warm_up import warm_up
from kilonova.conductor.workflows.registry import REGISTRY
from kilonova.db import schema
from kilonova.db.database import Database
from support.cell import Cell

_AT_MOST_S = 60.0
_TELL_EVERY_S = 5.0
#: Time in seconds for a workflow to reach its rest without the host, or to reach the step at all.
_REST_S = 20.0
_SAMPLED_PER_COURSE = 3
#: Workflows of several servers that do not depend on each other.
_BUILDS = {"batch", "build"}


@dataclass(frozen=True)
class Case:
    """A course in which the host of a step is lost. ``late``: it comes back late."""

    course: Course
    lost: Lost
    late: bool

    def __str__(self) -> str:
        return f"[{self.course}] {self.lost}, {'late' if self.late else 'soon'}"


@dataclass(frozen=True)
class Verdict:
    """Result of a case. ``problem``: the violation, or an empty string. ``missed``: the step lost no host."""

    case: Case
    problem: str = ""
    missed: bool = False


# --- in the child process ---------------------------------------------------------------------------------------------


def _run(folder: Path, case: Case) -> list[Any]:
    known, _ = json.loads((folder / "before.json").read_text())
    watch, starter = case.course.watch(), case.course.starts
    watch.armed = False
    bus = AbsentHostBus(watch, case.lost)
    cell = cloud.open_cell(folder, starter.hosts, watch, bus=bus, piece=starter.piece, networks=starter.networks)
    bus.wrap(cell.drivers)
    if starter.outside is not None:
        starter.outside(cell, known)
    watch.armed = True
    starter.begin(cell, known)
    until = time.monotonic() + _REST_S
    while not bus.is_lost and cloud.under_way(cell) and time.monotonic() < until:
        _turn(cell)
    if bus.is_lost:
        if case.late:
            _rest_without_host(cell, bus)
        bus.come_back(cell)
    cloud.come_to_rest(cell)
    cloud.check(cell)
    return [cloud.world(cell), bus.is_lost]


def _rest_without_host(cell: Cell, bus: AbsentHostBus) -> None:
    """Run until every workflow has ended or waits for the absent host. Raises: AssertionError."""
    until = time.monotonic() + _REST_S
    while left := cloud.under_way(cell, besides=bus.lost_host):
        assert time.monotonic() < until, f"stuck without its host: {left}"
        cell.conductor.runner.ask_hosts([bus.lost_host])
        _turn(cell)


def _turn(cell: Cell) -> None:
    cloud.turn(cell)
    time.sleep(0.005)


# --- in the parent process --------------------------------------------------------------------------------------------


def _cases(seen: Mapping[Course, Seen]) -> Iterator[Case]:
    """Yield the cases of all orders that a course sends and its undisturbed course does not send."""
    for course, whole in seen.items():
        known = set() if course == course.undisturbed else set(_orders(seen[course.undisturbed]))
        for kind, step, undoing in dict.fromkeys(order for order in _orders(whole) if order not in known):
            for manner in Manner:
                for late in (False, True):
                    yield Case(course, Lost(kind, step, undoing, manner), late)


def _orders(seen: Seen) -> Iterator[tuple[str, str, bool]]:
    """Yield the kind, step and direction of each message to a host."""
    for point in seen.points:
        if point.moment == Moment.AFTER_MESSAGE and point.kind:
            yield point.kind, point.step, point.undoing


def _acceptable(case: Case, seen: Mapping[Course, Seen]) -> list[Any]:
    """Return the allowed final states: before, done, and as after a failure of the step."""
    plain = seen[case.course.undisturbed]
    same = [each for course, each in seen.items() if course.kind == case.course.kind and course.breaks]
    homes = {row[1] for row in plain.before}
    worlds: list[Any] = []
    for world in (plain.before, plain.after, *(each.after for each in same)):
        known = _regardless_of_hosts(world, homes)
        if known not in worlds:
            worlds.append(known)
    return worlds


def _is_acceptable(world: Any, case: Case, worlds: Sequence[Any]) -> bool:
    """Return whether a state is allowed. Of several new servers, each may have its own end."""
    if case.course.kind in _BUILDS:
        return all(any(row in allowed for allowed in worlds) for row in world)
    # a server whose host is lost cannot be kept: it is deleted at once
    return world in worlds or (case.course.kind == "soft-delete" and not world)


def _regardless_of_hosts(world: Any, homes: set[str]) -> Any:
    """Return a state without its migrations, and with its hosts reduced to the first ones and others."""

    def named(host: str | None) -> str | None:
        return host if host is None else "home" if host in homes else "other"

    found = []
    for vm_state, host, flavor, power, places, _moves, kinds, *more in world:
        interfaces = [[[network, created, named(port)] for network, created, port in each] for each in more]
        guests = sorted([named(name), seen] for name, seen in places)
        found.append([vm_state, named(host), flavor, power, guests, kinds, interfaces])
    return found


def try_case(ground: Ground, case: Case, number: int) -> Verdict:
    """Run a case and check the final state."""
    place = ground.copy(case.course, str(number))
    try:
        ended = in_child(partial(_run, place, case), at_most_s=_AT_MOST_S)
        if ended.error or ended.killed:
            return Verdict(case, ended.error or "killed")
        after, is_lost = ended.found
        if not is_lost:
            return Verdict(case, missed=True)
        worlds = _acceptable(case, ground.seen)
        homes = {row[1] for row in ground.seen[case.course.undisturbed].before}
        world = _regardless_of_hosts(after, homes)
        if not _is_acceptable(world, case, worlds):
            return Verdict(
                case, f"the world is\n  {json.dumps(world)}\nnot one of\n  " + "\n  ".join(map(json.dumps, worlds))
            )
        return Verdict(case)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def run(folder: Path, options: argparse.Namespace) -> int:
    """Run the matrix and print the progress; return the number of violations."""
    began = time.monotonic()
    database = Database(f"sqlite:///{folder / 'schema.db'}")
    schema.upgrade(database)
    database.close()
    global _GROUND  # noqa: PLW0603
    _GROUND = ground = Ground(folder)
    wanted = [course for course in courses() if course.why is None and options.only in {None, course.kind}]
    if options.sample:
        wanted = _few(wanted, options)
    warm_up(folder / "schema.db")
    gc.freeze()
    problems = 0
    with multiprocessing.get_context("fork").Pool(options.jobs) as pool:
        pool.map(ground.prepare, {(c.kind, c.starter): c.undisturbed for c in wanted}.values(), chunksize=1)
    with multiprocessing.get_context("fork").Pool(options.jobs) as pool:
        for course, seen in pool.imap_unordered(_record, wanted):
            if isinstance(seen, str):
                problems += 1
                print(f"VIOLATION [{course}] with all hosts: {seen}", flush=True)
            else:
                ground.seen[course] = seen
                note_sending(list(seen.points))
    ordered = {c: ground.seen[c] for c in wanted if c in ground.seen and c.undisturbed in ground.seen}
    cases = list(_cases(ordered))
    if options.sample:
        cases = random.Random(options.seed).sample(cases, min(options.sample, len(cases)))
    print(f"away: {len(REGISTRY)} workflows, {len(ordered)} courses, {len(cases)} absences", flush=True)
    told, missed = time.monotonic(), 0
    with multiprocessing.get_context("fork").Pool(options.jobs) as pool:
        for done, verdict in enumerate(pool.imap_unordered(_try_numbered, list(enumerate(cases))), 1):
            if verdict.problem:
                problems += 1
                print(f"VIOLATION {verdict.case}\n{verdict.problem}", flush=True)
            if verdict.missed:
                missed += 1
                print(f"MISSED {verdict.case}: the host was never lost", flush=True)
            if time.monotonic() - told > _TELL_EVERY_S:
                told = time.monotonic()
                print(f"away: {done} of {len(cases)} absences ({told - began:.0f} s)", flush=True)
    taken = time.monotonic() - began
    print(f"away: {len(cases)} absences in {taken:.0f} s, {problems} violations, {missed} missed", flush=True)
    return problems


def _few(wanted: Sequence[Course], options: argparse.Namespace) -> list[Course]:
    """Return some courses with their undisturbed ones, and the courses of their failing steps."""
    count = min(len(wanted), max(1, options.sample // _SAMPLED_PER_COURSE))
    kinds = {course.kind for course in random.Random(options.seed).sample(list(wanted), count)}
    return [course for course in wanted if course.kind in kinds]


def _record(course: Course) -> tuple[Course, Seen | str]:
    assert _GROUND is not None
    return record(_GROUND, course)


def _try_numbered(work: tuple[int, Case]) -> Verdict:
    assert _GROUND is not None
    number, case = work
    return try_case(_GROUND, case, number)


#: Global, so that forked pool workers inherit it without serialization.
_GROUND: Ground | None = None


def main() -> int:
    logging.disable(logging.CRITICAL)  # the injected failures of steps would fill the log
    parser = argparse.ArgumentParser(prog="crash.away", description=__doc__)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--sample", type=int, default=0, help="run this many absences, chosen by the seed")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=[*REGISTRY], help="run this workflow only")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kilonova-away-") as folder:
        return int(run(Path(folder), options) > 0)


if __name__ == "__main__":
    sys.exit(main())
