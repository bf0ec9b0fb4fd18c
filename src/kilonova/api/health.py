# SPDX-License-Identifier: Apache-2.0
"""Health check for load balancers: ``GET /healthcheck``, which needs no token and shows no details.

The same route exists below each API (``/compute/healthcheck``), for load balancers in front of a single API. At most
once a second, one thread queries the database. Requests in between reuse the last result.
"""

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import orjson

from kilonova import deadline
from kilonova.db.database import Database
from kilonova.deadline import Deadline, nobody_left
from kilonova.errors import Unavailable
from kilonova.periodic import PeriodicTasks
from kilonova.records import dataclass

WsgiApp = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]

PATH = "/healthcheck"
_KNOWN_FOR_S = 1.0
_TIMEOUT_S = 2.0


@dataclass(frozen=True, slots=True)
class Check:
    """One health check. ``problem``: runs the check and returns an error message, or None if the check passes."""

    name: str
    problem: Callable[[], str | None]


class DatabaseAnswers:
    """Health check of the database connection; the result is cached for a second."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._clock = clock
        self._turn = threading.Lock()
        self._asked_at = float("-inf")
        self._began_at = 0.0
        self._problem: str | None = None

    def __call__(self) -> str | None:
        if self._clock() - self._asked_at >= _KNOWN_FOR_S:
            if self._turn.acquire(blocking=False):
                try:
                    self._began_at = self._clock()
                    self._problem = self._ask()
                    self._asked_at = self._clock()
                finally:
                    self._turn.release()
            elif self._clock() - self._began_at > _TIMEOUT_S:
                return "the database has not replied yet"
        return self._problem

    def _ask(self) -> str | None:
        ends_at = time.monotonic() + _TIMEOUT_S
        try:
            with deadline.running(Deadline(ends_at, nobody_left)), self._database.read() as connection:
                connection.exec_driver_sql("SELECT 1")
        except Unavailable as error:
            return error.message
        return None


def switched_off_by(file: Path | None) -> Callable[[], str | None]:
    """Return a check that fails while ``file`` exists. Operators create the file to drain this process."""
    return lambda: f"{file} exists" if file is not None and file.exists() else None


class Health:
    """Health checks of this process. ``tasks``: the periodic tasks of the process."""

    def __init__(self, checks: Iterable[Check], tasks: PeriodicTasks | None = None) -> None:
        self._checks = tuple(checks)
        self.tasks = tasks or PeriodicTasks()

    def problems(self) -> Mapping[str, str | None]:
        """Return name of check → error message, or None if the check passes."""
        return {check.name: check.problem() for check in self._checks}

    def application(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Reply 200 or 503, without details, because clients without a token can call this route."""
        method = environ.get("REQUEST_METHOD")
        headers = [("Content-Type", "text/plain; charset=UTF-8"), ("Cache-Control", "no-store")]
        if method not in {"GET", "HEAD"}:
            start_response("405 Method Not Allowed", [*headers, ("Allow", "GET, HEAD"), ("Content-Length", "0")])
            return [b""]
        is_well = not any(self.problems().values())
        body = b"OK" if is_well else b"UNAVAILABLE"
        if "application/json" in environ.get("HTTP_ACCEPT", ""):
            headers[0] = ("Content-Type", "application/json")
            body = orjson.dumps({"detailed": False, "reasons": [body.decode()]})
        start_response(
            "200 OK" if is_well else "503 Service Unavailable", [*headers, ("Content-Length", str(len(body)))]
        )
        return [b"" if method == "HEAD" else body]


def everywhere(health: Health, apis: Iterable[str]) -> Mapping[str, WsgiApp]:
    """Return path → WSGI application of the health check. One path is at the root, and one is below each API."""
    return {PATH: health.application, **{f"{api}{PATH}": health.application for api in apis}}
