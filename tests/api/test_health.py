# SPDX-License-Identifier: Apache-2.0
"""``/healthcheck`` tells whether a process is healthy, without a token and at little cost."""

import threading
from typing import NoReturn, cast

import pytest

from kilonova.api.health import Check, DatabaseAnswers, Health
from kilonova.cli.wiring.control import ControlProcess
from kilonova.db.database import Database
from kilonova.errors import Unavailable
from support.api_client import Answer, send
from support.control import Control


class Away:
    """A database whose server is away."""

    def read(self) -> NoReturn:
        raise Unavailable("The database cannot be reached.")


def ask(process: ControlProcess, path: str = "/healthcheck", method: str = "GET", **headers: str) -> Answer:
    return send(process.application, method, path, b"", headers)


@pytest.mark.parametrize("path", ["", "/compute", "/placement", "/operator"])
def test_a_process_that_is_well_says_so_without_a_token(control: Control, path: str) -> None:
    answer = ask(control.process, f"{path}/healthcheck")
    assert (answer.status, answer.raw) == (200, b"OK")
    assert answer.headers["cache-control"] == "no-store"
    assert ask(control.process, f"{path}/healthcheck", "HEAD").raw == b""
    assert ask(control.process, f"{path}/healthcheck", "POST").status == 405
    assert ask(control.process, f"{path}/healthcheck", Accept="application/json").body["reasons"] == ["OK"]
    assert b"healthcheck" not in ask(control.process, "/").raw


def test_a_process_without_its_database_is_not_well(control: Control) -> None:
    away = Away()
    health = Health([Check("database", DatabaseAnswers(cast("Database", away)))])
    answer = send(health.application, "GET", "/healthcheck", b"", {})
    assert (answer.status, answer.raw) == (503, b"UNAVAILABLE")
    assert health.problems() == {"database": "The database cannot be reached."}
    assert ask(control.process).status == 200


def test_the_database_is_asked_once_a_second_however_many_ask(control: Control) -> None:
    now, asked = [100.0], 0
    database = control.process.database
    answers = DatabaseAnswers(database, clock=lambda: now[0])
    real = answers._ask

    def count() -> str | None:
        nonlocal asked
        asked += 1
        return real()

    answers._ask = count  # type: ignore[method-assign]
    for _ in range(50):
        assert answers() is None
    assert asked == 1
    now[0] += 1.0
    assert answers() is None
    assert asked == 2


def test_only_one_request_waits_for_a_database_that_hangs(control: Control) -> None:
    now, hangs, goes_on = [100.0], threading.Event(), threading.Event()
    answers = DatabaseAnswers(control.process.database, clock=lambda: now[0])

    def hang() -> str | None:
        hangs.set()
        goes_on.wait(10)
        return "away"

    answers._ask = hang  # type: ignore[method-assign]
    first = threading.Thread(target=answers)
    first.start()
    assert hangs.wait(10)
    assert answers() is None  # No result yet, and the check has just started.
    now[0] += 3.0
    assert Health([Check("database", answers)]).problems() == {"database": "the database has not replied yet"}
    goes_on.set()
    first.join()
    assert answers() == "away"
