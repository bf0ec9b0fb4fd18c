# SPDX-License-Identifier: Apache-2.0
"""The drain of a host is applied while the control process is killed 2 seconds after each of its starts.

`make test` drains a small host, `make plans` a host with 100 servers on a cloud of 1,000 hosts.
"""

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from kilonova.db.core import tables as t
from kilonova.db.database import Database
from support.control import IMAGE
from support.samples import IS_WHOLE, sampled
from support.served import Served
from support.waiting import wait_until
from support.world import check_guests, check_world, guests_on_disk

HOSTS, SERVERS = sampled((1_000, 100), sample=(20, 12))
SCENARIO = f"""
images: [{{name: cirros}}]
hosts:
  - {{name: full, count: 1, vcpus: 200, memory_mib: 262144, move_delay_s: 0.1, live_migration_s: 0.3}}
  - {{name: node, count: {HOSTS - 1}, vcpus: 8, memory_mib: 16384, move_delay_s: 0.1, live_migration_s: 0.3}}
"""
_ALIVE_S = 2.0
_MOST_KILLS = 100
_PLANNED_S = 1.0


def ask(served: Served, method: str, path: str, body: Any = None, status: int = 200) -> Any:
    found, answer = served.call(method, path, body)
    assert found == status, answer
    return answer


def at_rest(served: Served) -> None:
    wait_until(
        lambda: not ask(served, "GET", "/operator/v1/workflows?limit=1")["workflows"], "all workflows to end",
        at_most_s=300, every_s=0.2,
    )  # fmt: skip


def fill(served: Served) -> str:
    """Boot the servers on one host, stop a third of them, and return the name of the host."""
    flavor = {"name": "small", "id": "1", "vcpus": 1, "ram": 512, "disk": 1}
    ask(served, "POST", "/compute/v2.1/flavors", {"flavor": flavor})
    (full,) = (
        each["host"]
        for each in ask(served, "GET", "/compute/v2.1/os-services?binary=nova-compute")["services"]
        if each["host"].startswith("full")
    )
    server = {"name": "vm", "imageRef": IMAGE, "flavorRef": "1", "networks": "none", "host": full, "min_count": SERVERS}
    ask(served, "POST", "/compute/v2.1/servers", {"server": server}, 202)
    at_rest(served)
    for each in ask(served, "GET", "/compute/v2.1/servers?all_tenants=1")["servers"][::3]:
        ask(served, "POST", f"/compute/v2.1/servers/{each['id']}/action", {"os-stop": None}, 202)
    at_rest(served)
    return full


@pytest.fixture
def served(sqlite_template: Path, tmp_path: Path) -> Iterator[Served]:
    (tmp_path / "kilonova.db").write_bytes(sqlite_template.read_bytes())
    started = Served(tmp_path, SCENARIO)
    started.start()
    yield started
    started.stop()


def test_a_drain_ends_although_its_process_is_killed_again_and_again(served: Served) -> None:
    full = fill(served)
    asked = {"hosts": [full], "limits": {"per_host": 10}}
    took = []
    for _ in range(5):
        began = time.perf_counter()
        planned = ask(served, "POST", "/operator/v1/drain", asked)
        took.append(time.perf_counter() - began)
    assert (len(planned["moves"]), planned["stays"]) == (SERVERS, [])
    plan = ask(served, "POST", "/operator/v1/plans", {"drain": asked}, 201)["plan"]["id"]
    ask(served, "POST", f"/operator/v1/plans/{plan}/apply", None, 202)
    began, kills = time.monotonic(), 0
    while True:
        time.sleep(_ALIVE_S)
        found = ask(served, "GET", f"/operator/v1/plans/{plan}")["plan"]
        if found["state"] != "running":
            break
        assert kills < _MOST_KILLS, found
        served.kill()
        kills += 1
        served.start()
    print(f"planned in {min(took):.2f} s; applied in {time.monotonic() - began:.0f} s with {kills} kills")
    at_rest(served)
    served.stop()
    assert (found["state"], found["stays"], found["progress"]["done"]) == ("done", [], SERVERS), found["message"]
    require_moved_once(served.folder, full)
    if IS_WHOLE:
        assert min(took) <= _PLANNED_S, took


def require_moved_once(folder: Path, full: str) -> None:
    database = Database(f"sqlite:///{folder / 'kilonova.db'}")
    with database.read() as connection:
        states = check_world(connection, guests_on_disk(folder / "hypervisors"))
        check_guests(connection, folder / "hypervisors")
        hosts = connection.execute(sa.select(t.instances.c.host).where(t.instances.c.deleted.is_(False))).scalars()
        assert full not in set(hosts)
        moved = Counter(connection.execute(sa.select(t.server_migrations.c.instance_uuid)).scalars())
        statuses = set(connection.execute(sa.select(t.server_migrations.c.status)).scalars())
    database.close()
    stopped = len(range(0, SERVERS, 3))
    assert Counter(states.values()) == {"stopped": stopped, "active": SERVERS - stopped}
    assert set(moved) == set(states)
    assert set(moved.values()) == {1}
    assert statuses == {"completed", "confirmed"}
