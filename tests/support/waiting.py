# SPDX-License-Identifier: Apache-2.0
"""Wait for what happens in the background."""

import time
from collections.abc import Callable

import sqlalchemy as sa

from kilonova.db.core import tables as t
from kilonova.db.database import Database


def wait_until(condition: Callable[[], object], what: str, *, at_most_s: float = 30, every_s: float = 0.01) -> None:
    """Return as soon as the condition holds. Raises: AssertionError, saying ``what`` never came."""
    deadline = time.monotonic() + at_most_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {at_most_s} s: {what}"
        time.sleep(every_s)


def wait_until_idle(database: Database, *, every_s: float = 0.005, at_most_s: float = 60) -> None:
    """Return as soon as no operation is under way. Raises: AssertionError, saying what never ended."""
    flow = t.workflows.c
    wanted = sa.select(flow.kind, flow.step, flow.undoing, flow.stuck, flow.waiting, flow.tries)
    left: list[object] = []

    def is_idle() -> bool:
        with database.read() as connection:
            left[:] = connection.execute(wanted)
        return not left

    try:
        wait_until(is_idle, "all operations end", at_most_s=at_most_s, every_s=every_s)
    except AssertionError as error:
        raise AssertionError(f"{error}: {left}") from None
