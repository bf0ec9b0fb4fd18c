# SPDX-License-Identifier: Apache-2.0
"""Repeated `kill -9` of a control process that builds many servers, with a check of consistency."""

import random
import sqlite3
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from http.client import HTTPException
from itertools import count
from threading import Event

import pytest
import sqlalchemy as sa

from kilonova.cli.wiring.control import image_id
from kilonova.db.core import tables as t
from kilonova.db.database import Database
from support.samples import sampled
from support.served import Served
from support.waiting import wait_until
from support.world import check_world, guests_on_disk

SCENARIO = """
images: [{name: cirros}]
hosts:
  - {name: good, count: 3, vcpus: 20, spawn_delay_s: 0.3}
  - {name: bad, count: 1, vcpus: 20, spawn_delay_s: 0.3, failing_spawns: 3}
"""
#: Clients that request servers until the first kill.
CLIENTS = 8
#: Kills after the first one; each needs a restart. `make crash-kills` runs for hours.
MORE_KILLS = sampled(4, sample=2)


def ask(served: Served, number: int) -> str:
    """Request a server and return its id. Raises: OSError or HTTPException without a response."""
    asked = {"name": f"vm{number}", "imageRef": image_id("cirros"), "flavorRef": "1", "networks": "auto"}
    status, body = served.call("POST", "/compute/v2.1/servers", {"server": asked})
    assert status == 202, body
    answer: str = body["server"]["id"]
    return answer


def ask_until(doomed: Event, killed: Event, served: Served, client: int) -> set[str]:
    """Request servers until ``killed`` is set or there is no response. Returns the ids of the accepted requests.

    ``doomed``: set when the process is about to be killed; until then it must respond.
    """
    promised: set[str] = set()
    for number in count(client, CLIENTS):
        try:
            promised.add(ask(served, number))
        except (OSError, HTTPException) as error:
            if not doomed.is_set():
                error.add_note(served.log.read_text()[-5000:])
                raise
            break
        if killed.is_set():
            break
    return promised


def wait_until_settled(served: Served) -> Counter[str]:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        _, body = served.call("GET", "/compute/v2.1/servers/detail?all_tenants=1")
        counts = Counter(server["status"] for server in body["servers"])
        with_a_task = [server for server in body["servers"] if server["OS-EXT-STS:task_state"]]
        if "BUILD" not in counts and not with_a_task:
            return counts
        time.sleep(0.05)
    raise AssertionError(f"workflows are still running: {counts}")


def unfinished(served: Served) -> int:
    """Return the number of workflows in the journal.

    sqlite3 reads the file directly: opening a `Database` takes longer than a build on a slow machine.
    """
    with closing(sqlite3.connect(f"file:{served.folder / 'kilonova.db'}?mode=ro", uri=True)) as connection:
        found: int = connection.execute("SELECT count(*) FROM workflows").fetchone()[0]
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("victim", "seed"), [("parent", 1), ("worker", 2)])
def test_many_servers_and_several_kills(serve: Callable[..., Served], victim: str, seed: int) -> None:
    rng = random.Random(seed)
    served = serve(SCENARIO)
    served.start()
    flavor = {"name": "m1.tiny", "id": "1", "ram": 512, "vcpus": 1, "disk": 1}
    assert served.call("POST", "/compute/v2.1/flavors", {"flavor": flavor})[0] == 200
    doomed, killed = Event(), Event()
    with ThreadPoolExecutor(CLIENTS) as pool:
        asked = [pool.submit(ask_until, doomed, killed, served, client) for client in range(CLIENTS)]
        try:
            begun = lambda: unfinished(served) or [future.result() for future in asked if future.done()]  # noqa: E731
            wait_until(begun, "a workflow to begin", at_most_s=30)
            time.sleep(rng.uniform(0.0, 0.1))
            doomed.set()
            served.kill(victim)
        finally:
            killed.set()
        promised = {uuid for future in asked for uuid in future.result()}
    under_way = [unfinished(served)]
    for turn in range(MORE_KILLS):
        served.start()
        if turn == 1 and promised:
            for uuid in rng.sample(sorted(promised), min(5, len(promised))):
                served.call("DELETE", f"/compute/v2.1/servers/{uuid}")
                promised.discard(uuid)
        time.sleep(rng.uniform(0.0, 0.5))
        served.kill(victim)
        under_way.append(unfinished(served))
    assert any(under_way), "no kill hit a running workflow"
    served.start()
    counts = wait_until_settled(served)
    assert set(counts) <= {"ACTIVE", "ERROR"}
    served.stop()

    database = Database(f"sqlite:///{served.folder / 'kilonova.db'}")
    with database.read() as connection:
        states = check_world(connection, guests_on_disk(served.folder / "hypervisors"))
        assert promised <= set(states), "a created server is gone without a delete"
        left = connection.execute(sa.select(sa.func.count()).select_from(t.instances)).scalar_one()
    database.close()
    assert left >= len(promised)


@pytest.mark.slow
def test_a_stop_in_the_middle_is_as_good(serve: Callable[..., Served]) -> None:
    served = serve(SCENARIO)
    served.start()
    flavor = {"name": "m1.tiny", "id": "1", "ram": 512, "vcpus": 1, "disk": 1}
    served.call("POST", "/compute/v2.1/flavors", {"flavor": flavor})
    promised = {ask(served, number) for number in range(20)}
    served.stop()
    served.start()
    wait_until_settled(served)
    served.stop()
    database = Database(f"sqlite:///{served.folder / 'kilonova.db'}")
    with database.read() as connection:
        assert promised == set(check_world(connection, guests_on_disk(served.folder / "hypervisors")))
    database.close()
