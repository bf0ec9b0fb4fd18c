# SPDX-License-Identifier: Apache-2.0
"""``/healthcheck`` says yes or no to anybody, cheaply; why is for administrators."""

import gc
import socket
import threading
from pathlib import Path
from typing import Any, NoReturn, cast

import pytest

from kilonova.api.health import Check, DatabaseAnswers, Health
from kilonova.cli.wiring.control import ControlProcess
from kilonova.db.database import Database
from kilonova.errors import Unavailable
from kilonova.periodic import PeriodicThread
from support.api_client import Answer, Client, send
from support.control import Control, start_control
from support.waiting import wait_until


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


def test_a_file_takes_a_process_out(tmp_path: Path) -> None:
    file = tmp_path / "drained"
    control = start_control(tmp_path, more=f"[healthcheck]\ndisable_by_file_path = {file}\n")
    try:
        assert ask(control.process).status == 200
        file.touch()
        assert ask(control.process).status == 503
        operator = Client(control.process.application, api="operator")
        told = operator.get("/health").body["health"]
        assert not told["healthy"]
        assert {each["name"]: each["problem"] for each in told["checks"]}["disable_by_file"] == f"{file} exists"
        assert operator.as_user("alice:wonder").get("/health").status == 403
        file.unlink()
        assert ask(control.process).status == 200
    finally:
        control.process.close()


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


def test_nobody_waits_for_a_database_that_somebody_waits_for_already(control: Control) -> None:
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
    assert answers() is None  # nothing is known yet, and it has just been asked
    now[0] += 3.0
    assert Health([Check("database", answers)]).problems() == {"database": "the database has not replied yet"}
    goes_on.set()
    first.join()
    assert answers() == "away"


def test_health_shows_every_periodic_task_of_the_process(tmp_path: Path) -> None:
    before = {each for each in gc.get_objects() if isinstance(each, PeriodicThread)}
    control = start_control(tmp_path)
    try:
        alive = [each for each in gc.get_objects() if isinstance(each, PeriodicThread) and each.is_alive]
        operator = Client(control.process.application, api="operator")
        wait_until(lambda: by_name(operator)["silence"]["last_start"], "a task has run")
        tasks = by_name(operator)
        assert {each.name for each in alive if each not in before} == set(tasks)
        assert {"leases", "checkpoints", "guest reports", "power states"} <= set(tasks)
        silence = tasks["silence"]
        assert silence["description"] == "Mark the services of silent processes as down."
        assert (silence["interval_s"], silence["last_error"]) == (5.0, None)
        assert silence["last_duration_s"] is not None
        assert tasks["guest reports"]["last_start"] is None
        assert tasks["guest reports"]["next_start"].endswith("Z")
        assert operator.as_user("alice:wonder").get("/health").status == 403
    finally:
        control.process.close()
    assert not any(each.is_alive for each in alive if each not in before)


def by_name(operator: Client) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in operator.get("/health").body["health"]["periodic_tasks"]}


def test_a_start_that_fails_at_its_last_part_leaves_no_thread_and_no_lock(tmp_path: Path) -> None:
    before = {each for each in gc.get_objects() if isinstance(each, PeriodicThread)}
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(Unavailable):
            start_control(tmp_path, more=f"[prometheus]\nmetrics_host = 127.0.0.1\nmetrics_port = {port}\n")
    left = [each for each in gc.get_objects() if isinstance(each, PeriodicThread) and each.is_alive]
    assert [each.name for each in left if each not in before] == []
    start_control(tmp_path).process.close()
