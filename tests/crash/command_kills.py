# SPDX-License-Identifier: Apache-2.0
"""Random kills of the real command `kilonova api`, from its first instruction on, under client load."""

import contextlib
import random
import tempfile
import time
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from crash.http_load import HttpLoad, Promised
from kilonova.db.audits import audit
from kilonova.db.core import tables as t
from kilonova.db.database import Database
from support.served import Served
from support.world import check_guests, check_world, guests_on_disk

SCENARIO = """
images: [{name: cirros}]
hosts:
  - {name: good, count: 3, vcpus: 16, spawn_delay_s: 0.02, move_delay_s: 0.02, live_migration_s: 0.1}
  - {name: bad, count: 1, vcpus: 16, failing_spawns: 2, failing_moves: 1}
"""
_FLAVORS = {"1": (1, 512, 1), "2": (2, 1024, 2)}
_CLIENTS, _SERVERS = 3, 12
_LOOKED_AT_EVERY = 5
_LATEST_S = 5.0
_AT_REST_S = 60.0


def kill_one_cloud(folder: Path, seed: str, kills: int) -> str:
    """Kill the command ``kills`` times; return the violation, or an empty string."""
    rng = random.Random(f"command {seed}")
    place = Path(tempfile.mkdtemp(prefix="command-", dir=folder))
    served = Served(place, SCENARIO)
    served.is_forked = False  # kills also hit the imports
    served.start()
    for flavor, (vcpus, ram, disk) in _FLAVORS.items():
        body = {"name": f"flavor{flavor}", "id": flavor, "vcpus": vcpus, "ram": ram, "disk": disk}
        status, answer = served.call("POST", "/compute/v2.1/flavors", {"flavor": body})
        if status != 200:
            return f"{place}: {answer}"
    clients = _clients(served, seed)
    clients.start()
    try:
        for number in range(1, kills + 1):
            time.sleep(rng.uniform(0.0, _LATEST_S))
            served.kill(rng.choice(["parent", "worker"]))
            if number % _LOOKED_AT_EVERY == 0 or number == kills:
                problem = _look(served, clients)
                if problem:
                    return f"{place}, after kill {number}: {problem}"
                clients = _clients(served, f"{seed}-{number}", clients.promised)
                clients.start()
            served.launch()
    finally:
        clients.stop()
        with contextlib.suppress(OSError, ProcessLookupError):
            served.stop()
    return ""


def _clients(served: Served, seed: str, promised: Promised | None = None) -> HttpLoad:
    def call(method: str, path: str, body: Any) -> tuple[int, Any]:
        return served.call(method, f"/compute/v2.1{path}", body)

    return HttpLoad(call, seed, clients=_CLIENTS, servers=_SERVERS, promised=promised)


def _look(served: Served, clients: HttpLoad) -> str:
    """Start without clients, wait until no workflow is left, stop, and check the state."""
    clients.stop()
    try:
        served.start()
        _rest(served)
        served.stop()
        database = Database(f"sqlite:///{served.folder / 'kilonova.db'}")
        try:
            with database.read() as connection:
                present = set(check_world(connection, guests_on_disk(served.folder / "hypervisors")))
                check_guests(connection, served.folder / "hypervisors")
                assert audit.find_all(connection) == ()
        finally:
            database.close()
        clients.promised.check(present)
    except AssertionError as error:
        return f"{error!r}"
    return ""


def _rest(served: Served) -> None:
    until = time.monotonic() + _AT_REST_S
    database = Database(f"sqlite:///{served.folder / 'kilonova.db'}")
    try:
        while True:
            with database.read() as connection:
                left = connection.execute(sa.select(t.workflows)).all()
            if not left:
                time.sleep(0.5)  # hosts may still be cleaning up
                return
            assert time.monotonic() < until, f"stuck: {left}"
            time.sleep(0.05)
    finally:
        database.close()
