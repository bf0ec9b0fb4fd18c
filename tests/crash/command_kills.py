# SPDX-License-Identifier: Apache-2.0
"""The real command, `kilonova api`, killed at any moment from its first instruction on, while clients ask."""

import contextlib
import random
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from kilonova.cli.control import image_id
from kilonova.db import audit
from kilonova.db import tables as t
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


class _Clients:
    """Threads that ask a server for something at random, whether it is there or not."""

    def __init__(self, served: Served, seed: str) -> None:
        self._served = served
        self._seed = seed
        self._stopped = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(number,)) for number in range(_CLIENTS)]
        #: What the server has promised: there, and not.
        self.made: set[str] = set()
        self.asked_gone: set[str] = set()
        self.gone: set[str] = set()

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join()

    def _run(self, number: int) -> None:
        rng = random.Random(f"{self._seed}-{number}")
        while not self._stopped.is_set():
            try:
                self._ask(rng)
            except OSError:
                self._stopped.wait(0.05)

    def _call(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        return self._served.call(method, f"/compute/v2.1{path}", body)

    def _ask(self, rng: random.Random) -> None:
        known = sorted(self.made - self.asked_gone)
        if len(known) < rng.randrange(1, _SERVERS):
            asked = {"name": "vm", "imageRef": image_id("cirros"), "flavorRef": "1", "networks": "auto"}
            status, body = self._call("POST", "/servers", {"server": asked})
            if status == 202:
                self.made.add(body["server"]["id"])
            return
        uuid = rng.choice(known)
        if rng.random() < 0.1:
            self.asked_gone.add(uuid)
            if self._call("DELETE", f"/servers/{uuid}")[0] == 204:
                self.gone.add(uuid)
            return
        self._call("POST", f"/servers/{uuid}/action", rng.choice(_ACTIONS))


_ACTIONS: tuple[dict[str, Any], ...] = (
    {"os-stop": None},
    {"os-start": None},
    {"reboot": {"type": "HARD"}},
    {"resize": {"flavorRef": "2"}},
    {"confirmResize": None},
    {"revertResize": None},
    {"migrate": None},
    {"os-migrateLive": {"host": None, "block_migration": "auto"}},
)


def kill_one_cloud(folder: Path, seed: str, kills: int) -> str:
    """Kill the command so often; return what was wrong, empty if nothing."""
    rng = random.Random(f"command {seed}")
    place = Path(tempfile.mkdtemp(prefix="command-", dir=folder))
    served = Served(place, SCENARIO)
    served.start()
    for flavor, (vcpus, ram, disk) in _FLAVORS.items():
        body = {"name": f"flavor{flavor}", "id": flavor, "vcpus": vcpus, "ram": ram, "disk": disk}
        status, answer = served.call("POST", "/compute/v2.1/flavors", {"flavor": body})
        if status != 200:
            return f"{place}: {answer}"
    clients = _Clients(served, seed)
    clients.start()
    try:
        for number in range(1, kills + 1):
            time.sleep(rng.uniform(0.0, _LATEST_S))
            served.kill(rng.choice(["parent", "worker"]))
            if number % _LOOKED_AT_EVERY == 0 or number == kills:
                problem = _look(served, clients)
                if problem:
                    return f"{place}, after kill {number}: {problem}"
                clients = _again(clients, served, f"{seed}-{number}")
            served.launch()
    finally:
        clients.stop()
        with contextlib.suppress(OSError, ProcessLookupError):
            served.stop()
    return ""


def _again(old: _Clients, served: Served, seed: str) -> _Clients:
    clients = _Clients(served, seed)
    clients.made, clients.asked_gone, clients.gone = old.made, old.asked_gone, old.gone
    clients.start()
    return clients


def _look(served: Served, clients: _Clients) -> str:
    """Start without clients, wait until nothing is under way, stop, and look."""
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
        assert clients.made - clients.asked_gone <= present, "a server that a client was promised is gone"
        assert not clients.gone & present, "a server whose delete was taken is there"
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
