# SPDX-License-Identifier: Apache-2.0
"""Polling for conditions that come true in the background."""

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import requests
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


def wait_for_service(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    """Poll until a service answers at ``url``. Raises: AssertionError with the log if ``process`` ends or is slow."""

    def answers() -> bool:
        assert process.poll() is None, log.read_text()
        try:
            requests.get(url, timeout=5)
        except requests.ConnectionError:
            return False
        return True

    wait_until(answers, lambda: f"{url} to answer: {log.read_text()}", at_most_s=120, every_s=0.05)
