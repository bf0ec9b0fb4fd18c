# SPDX-License-Identifier: Apache-2.0
"""`kilonova api` with two workers on one database: one is killed, requests go on, and it is replaced."""

import os
import re
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path

import pytest

from kilonova.bundled_services.free_ports import free_port
from kilonova.cli.wiring.control import image_id
from support.served import Served, call
from support.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("kind", ["postgresql"], indirect=True)]
_SERVES = re.compile(r"Worker (\d) \(pid (\d+)\) serves")
SCENARIO = """
images: [{name: cirros}]
hosts: [{name: node, count: 3, vcpus: 50, spawn_delay_s: 0.2}]
"""


class Cloud:
    def __init__(self, folder: Path, database_url: str) -> None:
        self.metrics_port = free_port()
        workers = f"[DEFAULT]\nosapi_compute_workers = 2\n[prometheus]\nmetrics_port = {self.metrics_port}\n"
        self.served = Served(folder, SCENARIO, connection=database_url, more=workers)

    def serving(self) -> dict[int, list[int]]:
        """Return number → pids of the workers that have served so far."""
        found: dict[int, list[int]] = {1: [], 2: []}
        for number, pid in _SERVES.findall(self.served.log.read_text()):
            found[int(number)].append(int(pid))
        return found

    def until_served(self, number: int, times: int) -> int:
        """Wait until a worker serves for the so-manieth time; return its pid."""
        wait_until(
            lambda: len(self.serving()[number]) >= times, f"worker {number} to serve", at_most_s=60, every_s=0.05
        )
        return self.serving()[number][times - 1]

    def boot(self, name: str) -> str:
        asked = {"name": name, "imageRef": image_id("cirros"), "flavorRef": "1", "networks": "auto"}
        status, body = self.served.call("POST", "/compute/v2.1/servers", {"server": asked})
        assert status == 202, body
        uuid: str = body["server"]["id"]
        return uuid

    def statuses(self) -> Counter[str]:
        _, body = self.served.call("GET", "/compute/v2.1/servers/detail?all_tenants=1")
        return Counter(server["status"] for server in body["servers"])


@pytest.fixture
def cloud(tmp_path: Path, database_url: str) -> Iterator[Cloud]:
    cloud = Cloud(tmp_path, database_url)
    cloud.served.start()
    for number in (1, 2):
        cloud.until_served(number, 1)
    flavor = {"name": "m1.tiny", "id": "1", "ram": 512, "vcpus": 1, "disk": 1}
    assert cloud.served.call("POST", "/compute/v2.1/flavors", {"flavor": flavor})[0] == 200
    yield cloud
    if cloud.served.process is not None and cloud.served.process.poll() is None:
        cloud.served.kill()


@contextmanager
def clients(port: int, count: int = 4) -> Iterator[Counter[str]]:
    """Send requests all the time, each with a connection of its own; yield outcome → number of requests."""
    outcomes: Counter[str] = Counter()
    over = threading.Event()

    def ask() -> None:
        while not over.is_set():
            try:
                status, _ = call(port, "GET", "/compute/v2.1/flavors")
            except (OSError, HTTPException) as error:
                outcomes[type(getattr(error, "reason", error)).__name__] += 1
            else:
                outcomes[str(status)] += 1

    threads = [threading.Thread(target=ask) for _ in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield outcomes
    finally:
        over.set()
        for thread in threads:
            thread.join()


@pytest.mark.parametrize("victim", [1, 2])
def test_a_killed_worker_is_replaced_while_requests_go_on(cloud: Cloud, victim: int) -> None:
    """Worker 1 has the hosts: its replacement takes them over with the unfinished builds of its predecessor."""
    first = cloud.serving()[victim][0]
    with clients(cloud.served.port) as outcomes:
        for number in range(6):
            cloud.boot(f"vm{number}")
        os.kill(first, signal.SIGKILL)
        killed = time.monotonic()
        for number in range(6, 12):
            try:
                cloud.boot(f"vm{number}")
            except (OSError, HTTPException):
                assert time.monotonic() < killed + 5
        cloud.until_served(victim, 2)
        time.sleep(0.5)
    print(dict(outcomes))
    assert outcomes["ConnectionRefusedError"] == 0
    assert set(outcomes) <= {"200", "ConnectionResetError", "RemoteDisconnected"}
    assert sum(count for outcome, count in outcomes.items() if outcome != "200") <= 4  # those that were being answered
    # the lease of the killed process would end after a minute
    wait_until(lambda: set(cloud.statuses()) == {"ACTIVE"}, "all servers to be active", at_most_s=30, every_s=0.2)
    assert cloud.statuses()["ACTIVE"] >= 11
    cloud.served.stop()
    assert cloud.served.process is not None
    assert cloud.served.process.returncode == 0


def test_hosts_belong_to_one_worker_and_metrics_have_a_port_each(cloud: Cloud) -> None:
    services = cloud.served.call("GET", "/compute/v2.1/os-services")[1]["services"]
    assert Counter(service["binary"] for service in services) == {
        "nova-compute": 3, "nova-conductor": 1, "nova-scheduler": 1,
    }  # fmt: skip
    assert {service["state"] for service in services} == {"up"}
    log = cloud.served.log.read_text()
    assert "[worker 1] " in log
    assert "[worker 2] " in log
    for port in (cloud.metrics_port, cloud.metrics_port + 1):
        with pytest.raises(ValueError, match="Expecting value"):  # text, not JSON
            call(port, "GET", "/metrics")


def test_on_sqlite_the_option_is_an_error(tmp_path: Path, database_url: str) -> None:
    del database_url
    served = Served(tmp_path, workers="[DEFAULT]\nosapi_compute_workers = 2\n")
    done = served.run()
    assert done.returncode == 2
    assert done.stderr == (
        "kilonova: [DEFAULT] osapi_compute_workers = 2 needs PostgreSQL or MariaDB: an SQLite database has only one "
        "control process. Set [database] connection, or osapi_compute_workers = 1.\n"
    )


def test_a_schema_that_is_not_upgraded_ends_all_workers_at_once(tmp_path: Path, empty_database_url: str) -> None:
    served = Served(tmp_path, connection=empty_database_url, workers="[DEFAULT]\nosapi_compute_workers = 3\n")
    done = served.run()
    assert done.returncode == 2
    assert "kilonova db upgrade" in done.stderr
