# SPDX-License-Identifier: Apache-2.0
"""A thread that holds the decision lock waits for nothing: no database, no network, no other thread."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kilonova.db import resource_classes
from kilonova.db.database import Database
from kilonova.mirror.mirror import Mirror
from support.control import Control, start_control
from support.decision_lock import WatchedLock


@pytest.fixture
def lock() -> WatchedLock:
    return WatchedLock()


@pytest.fixture
def control(tmp_path: Path, database_url: str, lock: WatchedLock) -> Iterator[Control]:
    more = "[api]\nmax_limit = 1000\n"
    started = start_control(tmp_path, decision_lock=lock, database_url=database_url, more=more)
    yield started
    started.process.close()


def test_the_holder_of_the_decision_lock_never_waits(control: Control, lock: WatchedLock, database_url: str) -> None:
    control.add_flavor("1", vcpus=1)
    control.add_flavor("9", vcpus=640)
    made = control.admin.post("/os-aggregates", {"aggregate": {"name": "a", "availability_zone": "z"}}).body
    actions = f"/os-aggregates/{made['aggregate']['id']}/action"
    assert control.admin.post(actions, {"add_host": {"host": "node1"}}).status == 200
    groups = []
    for policy in ("anti-affinity", "affinity"):
        group = {"name": policy, "policy": policy}
        answer = control.member.post("/os-server-groups", {"server_group": group})
        groups.append(answer.body["server_group"]["id"])

    def boot(number: int) -> None:
        hints = {"group": groups[number % 3]} if number % 3 < 2 else None
        assert control.ask(hints=hints, flavorRef="9" if number == 5 else "1").status == 202

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(boot, range(12)))
    assert control.ask(min_count=3, max_count=3).status == 202
    assert control.ask(availability_zone="z").status == 202
    assert control.placement.get("/allocation_candidates?resources=VCPU:1").status == 200
    operator = control.operator
    asked = {"flavor": "1", "count": 3, "group": groups[0], "project_id": "wonder"}
    assert operator.post("/explain", asked).status == 200
    control.settle()
    elsewhere = Database(database_url)
    elsewhere.write(lambda tx: resource_classes.create(tx, "CUSTOM_GOLD"))  # which others fetch from the log
    elsewhere.close()
    assert control.ask().status == 202
    control.settle()
    control.process.mirror.reload()
    servers = control.member.get("/servers").body["servers"]
    assert len(servers) > 8
    for server in servers:
        assert control.member.delete(f"/servers/{server['id']}").status == 204
    control.settle()
    assert lock.times_taken > 50
    assert lock.offences == {}, "\n\n".join(f"{what}\n{where}" for what, where in lock.offences.items())


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"], indirect=True)
def test_the_watch_sees_what_waits(database: Database, lock: WatchedLock) -> None:
    mirror = Mirror.follow(database, lock=lock)
    assert not lock.offences
    with lock:
        mirror.reload()
        database.submit(lambda tx: tx.now)
    assert {"Database.read", "Database.submit"} <= {what.split()[0] for what in lock.offences}
