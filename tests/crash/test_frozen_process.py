# SPDX-License-Identifier: Apache-2.0
"""Real control process stopped (SIGSTOP) for longer than its lease while another one runs."""

import os
import re
import signal
import time
from collections.abc import Callable

import pytest
import sqlalchemy as sa

from kilonova.cli.wiring.control import image_id
from kilonova.db.core import tables as t
from kilonova.db.database import Database
from support.served import Served
from support.world import check_world, guests_on_disk

LEASE_S = 2.0
SERVERS = 12
OPTIONS = f"[conductor]\nlease_time = {LEASE_S}\n"


def scenario(name: str) -> str:
    return f"images: [{{name: cirros}}]\nhosts: [{{name: {name}, count: 2, vcpus: 20, spawn_delay_s: 0.3}}]\n"


def boot(served: Served, number: int) -> str:
    asked = {"name": f"vm{number}", "imageRef": image_id("cirros"), "flavorRef": "1", "networks": "auto"}
    status, body = served.call("POST", "/compute/v2.1/servers", {"server": asked})
    assert status == 202, body
    return str(body["server"]["id"])


def settled(served: Served) -> dict[str, str]:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        _, body = served.call("GET", "/compute/v2.1/servers/detail?all_tenants=1")
        servers = body["servers"]
        if not any(each["OS-EXT-STS:task_state"] or each["status"] == "BUILD" for each in servers):
            return {each["id"]: each["OS-EXT-SRV-ATTR:host"] for each in servers}
        time.sleep(0.1)
    raise AssertionError("workflows are still running")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_stopped_for_longer_than_its_lease(serve: Callable[..., Served], database_url: str) -> None:
    one = serve(scenario("one"), connection=database_url, more=OPTIONS)
    other = serve(scenario("other"), connection=database_url, more=OPTIONS)
    for each in (one, other):
        each.start()
    flavor = {"name": "m1.tiny", "id": "1", "ram": 512, "vcpus": 1, "disk": 1}
    assert other.call("POST", "/compute/v2.1/flavors", {"flavor": flavor})[0] == 200
    uuids = [boot(other, number) for number in range(SERVERS)]
    places = settled(other)
    on_one = [uuid for uuid in uuids if places[uuid].startswith("one")]
    assert on_one
    uuids += [boot(one, SERVERS + number) for number in range(SERVERS)]
    stopped = one.processes()
    for process in stopped:
        os.kill(process.pid, signal.SIGSTOP)  # the builds are running at this moment
    for uuid in on_one[:3]:
        assert other.call("DELETE", f"/compute/v2.1/servers/{uuid}")[0] == 204
    time.sleep(2 * LEASE_S)
    left = settled(other)
    assert not set(on_one[:3]) & set(left), "deletes wait for the stopped process"
    for process in stopped:
        os.kill(process.pid, signal.SIGCONT)
    deadline = time.monotonic() + 30
    while "for longer than its lease" not in one.log.read_text() and time.monotonic() < deadline:
        time.sleep(0.1)
    time.sleep(LEASE_S)
    assert set(settled(other)) == set(uuids) - set(on_one[:3])
    last = boot(one, 99)
    settled(one)
    assert one.call("DELETE", f"/compute/v2.1/servers/{last}")[0] == 204
    settled(one)
    for each in (one, other):
        each.stop()
    database = Database(database_url)
    guests = guests_on_disk(one.folder / "hypervisors") | guests_on_disk(other.folder / "hypervisors")
    with database.read() as connection:
        check_world(connection, guests)
        assert connection.execute(sa.select(t.workflows)).all() == []
    database.close()
    log = one.log.read_text() + other.log.read_text()
    told = re.findall(rf"INFO \S+ (?:\[[^]]*\] )?Server {last} ([a-z]+)\b.*\[(req-[0-9a-f-]+)\]", log)
    assert [event for event, _ in told] == ["created", "placed", "spawned", "deleted"]
    assert len({request for _, request in told}) == 2
