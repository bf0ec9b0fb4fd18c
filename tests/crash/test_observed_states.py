# SPDX-License-Identifier: Apache-2.0
"""Comparison of the transition table with the states observed in workflows, in both directions."""

import logging
import multiprocessing
import shutil
from collections import defaultdict
from collections.abc import Iterator

import pytest

from crash import matrix
from crash.courses import Course, courses
from crash.ground import Ground, run
from crash.observed_states import ObservedStates, differences, observed, watch
from crash.processes import in_child
from crash.warm_up import warm_up
from kilonova.conductor.workflows.registry import REGISTRY
from kilonova.db import schema
from kilonova.db.database import Database
from support.samples import IS_WHOLE

#: Workflows without a server of their own.
_NO_SERVER = {"batch", "cache-images"}


def _wanted() -> Iterator[Course]:
    """Yield the courses without another workflow; with ``KILONOVA_WHOLE`` also those with a failing step."""
    for course in courses():
        if course.kind in _NO_SERVER or course.why is not None:
            continue
        if IS_WHOLE or not (course.breaks or course.fault):
            yield course


def _observe(numbered: tuple[int, Course]) -> tuple[Course, ObservedStates]:
    number, course = numbered
    ground = matrix._GROUND
    assert ground is not None
    place = ground.copy(course, f"observed-{number}")
    try:
        watch(place)
        ended = in_child(lambda: run(place, course), at_most_s=60.0)
        assert not ended.error, f"{course}: {ended.error}"
        return course, observed(place)
    finally:
        shutil.rmtree(place, ignore_errors=True)


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ObservedStates]:
    folder = tmp_path_factory.mktemp("observed")
    database = Database(f"sqlite:///{folder / 'schema.db'}")
    schema.upgrade(database)
    database.close()
    logging.disable(logging.CRITICAL)
    matrix._GROUND = Ground(folder)
    found: dict[str, ObservedStates] = defaultdict(ObservedStates)
    try:
        warm_up(folder / "schema.db")
        wanted = list(_wanted())
        with multiprocessing.get_context("fork").Pool(2) as pool:
            pool.map(matrix._GROUND.prepare, {(c.kind, c.starter): c.undisturbed for c in wanted}.values(), chunksize=1)
            for course, states in pool.imap_unordered(_observe, enumerate(wanted)):
                found[course.kind].add(states)
    finally:
        logging.disable(logging.NOTSET)
        matrix._GROUND = None
    return found


@pytest.mark.parametrize("kind", sorted(REGISTRY.keys() - _NO_SERVER))
def test_the_row_of_a_workflow_says_what_is_observed(kind: str, seen: dict[str, ObservedStates]) -> None:
    assert differences(REGISTRY[kind].transition, seen[kind]) == []
