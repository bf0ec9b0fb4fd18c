# SPDX-License-Identifier: Apache-2.0
"""One request for many servers that fit no host must not slow down the writes of other users.

``KILONOVA_BIG_REQUEST``: number of servers, 1,000 by default.
"""

import os
import statistics
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kilonova.cli.wiring.control import image_id
from support.served import Served

SERVERS = int(os.environ.get("KILONOVA_BIG_REQUEST", "1000"))
SCENARIO = "images: [{name: cirros}]\nhosts: [{name: node, count: 3, vcpus: 40}]\n"
#: Limit of the median latency, as a multiple of the quiet one, plus a constant in seconds for the machine.
USUAL, GRACE_S = 6.0, 0.05
#: Limit of the worst latency: a multiple of the quiet one, or a part of the big request's duration on a slow machine.
WORST, WORST_PART = 20.0, 0.2


@pytest.fixture
def served(tmp_path: Path, database_url: str) -> Iterator[Served]:
    more = f"max_servers_per_request = {SERVERS}"
    server = Served(tmp_path, SCENARIO, connection=database_url, more=f"[api]\n{more}\n")
    server.start()
    yield server
    server.stop()


def server(name: str, flavor: str = "1", **more: Any) -> dict[str, Any]:
    return {"server": {"name": name, "imageRef": image_id("cirros"), "flavorRef": flavor, "networks": "auto", **more}}


def seconds(ask: Callable[[], tuple[int, Any]]) -> float:
    began = time.perf_counter()
    status, body = ask()
    assert status < 300, body
    return time.perf_counter() - began


@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"], indirect=True)
def test_others_hardly_notice_a_request_for_a_thousand_servers(served: Served) -> None:
    for number, vcpus in (("1", 1), ("2", 20)):
        flavor = {"name": f"m{number}", "id": number, "ram": 64, "vcpus": vcpus, "disk": 0}
        assert served.call("POST", "/compute/v2.1/flavors", {"flavor": {**flavor, "disk": 1}})[0] == 200

    def write() -> tuple[int, Any]:
        trait = f"CUSTOM_{uuid.uuid4().hex.upper()}"
        return served.call("PUT", f"/placement/traits/{trait}", OpenStack_API_Version="placement 1.39")

    def boot() -> tuple[int, Any]:
        return served.call("POST", "/compute/v2.1/servers", server("small"))

    for ask in (write, boot):
        seconds(ask)
    quiet = [(seconds(write), seconds(boot)) for _ in range(12)]
    answered: list[tuple[int, Any]] = []
    asked = server("big", "2", min_count=SERVERS, max_count=SERVERS, return_reservation_id=True)
    big = threading.Thread(target=lambda: answered.append(served.call("POST", "/compute/v2.1/servers", asked)))
    began = time.perf_counter()
    big.start()
    busy: list[tuple[float, float]] = []
    while big.is_alive() or not _is_refused(served, answered):
        busy.append((seconds(write), seconds(boot)))
    big.join()
    took = time.perf_counter() - began
    assert len(busy) >= 3, "the big request ended before enough requests were measured"
    # writes and boots wait for the same disk
    usual = max(statistics.median(before) for before in zip(*quiet, strict=True))
    print(f"quiet: {usual * 1e3:.1f} ms, big request: {took:.1f} s")
    for kind, during in zip(("write", "boot"), zip(*busy, strict=True), strict=True):
        median, worst = statistics.median(during), max(during)
        print(f"{kind}: busy median {median * 1e3:.1f} ms, worst {worst * 1e3:.1f} ms")
        assert median <= USUAL * usual + GRACE_S, kind
        assert worst <= max(WORST * usual, WORST_PART * took), kind


def _is_refused(served: Served, answered: list[tuple[int, Any]]) -> bool:
    """Return whether every server of the big request has left the status BUILD."""
    if not answered:
        return False
    status, body = answered[0]
    assert status == 202, body
    query = f"reservation_id={body['reservation_id']}&all_tenants=1&status=BUILD&limit=1"
    _, found = served.call("GET", f"/compute/v2.1/servers?{query}")
    return not found["servers"]
