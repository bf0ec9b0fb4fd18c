# SPDX-License-Identifier: Apache-2.0
"""Polling for conditions that come true in the background."""

import time
from collections.abc import Callable

import sqlalchemy as sa

from kilonova.db.core import tables as t
from kilonova.db.database import Database


def wait_until(
    condition: Callable[[], object], what: str | Callable[[], str], *, at_most_s: float = 30, every_s: float = 0.01
) -> None:
    """Poll until the condition holds. Raises: AssertionError on timeout.

    ``what``: the event, for the error, or a function that describes it at the timeout.
    """
    deadline = time.monotonic() + at_most_s
    while not condition():
        assert time.monotonic() < deadline, f"timeout after {at_most_s} s: {what if isinstance(what, str) else what()}"
        time.sleep(every_s)


def wait_until_idle(database: Database, *, every_s: float = 0.005, at_most_s: float = 60) -> None:
    """Poll until no workflow is running. Raises: AssertionError that lists the remaining workflows."""
    flow = t.workflows.c
    wanted = sa.select(flow.kind, flow.step, flow.undoing, flow.stuck, flow.waiting, flow.tries)
    left: list[object] = []

    def is_idle() -> bool:
        with database.read() as connection:
            left[:] = connection.execute(wanted)
        return not left

    wait_until(is_idle, lambda: f"all workflows to end: {left}", at_most_s=at_most_s, every_s=every_s)
