# SPDX-License-Identifier: Apache-2.0
"""Pages of 1,000 of 10,000 servers over HTTP: ``GET /servers`` and ``/servers/detail``, as member and as admin.

The control process uses SQLite. The servers are inserted directly into its tables, each with a request spec, an image
with properties, metadata and tags. All pages are read, to check that the last one costs as much as the first. The
floor, measured in the same run, is reading the rows of a page and encoding the reply: no API can do less.

    python -m benchmarks lists [-- SERVERS]
"""

import json
import sqlite3
import statistics
import time
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import orjson
import sqlalchemy as sa

from benchmarks._seeded_cloud import FLAVOR, add_hosts
from benchmarks.servers import Cloud
from kilonova.db import request_specs, schema
from kilonova.db.core import tables as t
from kilonova.db.core.transaction import Transaction
from kilonova.db.database import Database
from kilonova.model.image import Image
from kilonova.model.request_spec import RequestSpec, StoredRequest

SERVERS, PAGE = 10_000, 1_000
GOAL_MS = 100.0
_ON_EACH_HOST = 50
_ROUNDS = 5
_IMAGE = Image(str(uuid4()), "cirros", properties={"hw_disk_bus": "virtio", "hw_vif_model": "virtio", "os_distro": "x"})
#: (path, microversion, token) of each measured list.
_ASKED = (
    ("servers", "2.1", "u:p"),
    ("servers/detail", "2.1", "u:p"),
    ("servers/detail", "2.104", "u:p"),
    ("servers/detail", "2.104", "admin"),
)


def fill(url: str, servers: int) -> None:
    """Create a database with servers of project ``p``."""
    database = Database(url)
    schema.upgrade(database)
    add_hosts(database, servers // _ON_EACH_HOST, servers_on_each=_ON_EACH_HOST)

    def describe(tx: Transaction) -> None:
        instance = t.instances.c
        uuids = list(tx.execute(sa.select(instance.uuid)).scalars())
        spec = RequestSpec(
            FLAVOR, _IMAGE, project_id="p", user_id="u", request_id="req", hints={"group": (str(uuid4()),)}
        )
        requests = [StoredRequest(str(uuid4()), spec) for _ in uuids]
        request_specs.insert(tx, requests)
        for uuid, request in zip(uuids, requests, strict=True):
            tx.execute(
                sa.update(t.instances)
                .where(instance.uuid == uuid)
                .values(
                    request_spec_uuid=request.uuid,
                    image_ref=_IMAGE.id,
                    image_properties=dict(_IMAGE.properties),
                    metadata={"role": "web", "team": "blue"},
                    launched_at=tx.now,
                )
            )
        tags = [{"instance_uuid": uuid, "tag": tag} for uuid in uuids for tag in ("a", "b")]
        tx.execute(sa.insert(t.instance_tags), tags)

    database.write(describe)
    database.close()


def walk(port: int, path: str, version: str, token: str) -> tuple[list[float], int, bytes]:
    """Read all pages; return the latency of each in milliseconds, the number of servers, and the last page."""
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    headers = {"X-Auth-Token": token, "OpenStack-API-Version": f"compute {version}"}
    following: str | None = f"/compute/v2.1/{path}?limit={PAGE}" + ("&all_tenants=1" if token == "admin" else "")
    times, found, page = [], 0, b""
    while following:
        started = time.perf_counter()
        connection.request("GET", following, headers=headers)
        answer = connection.getresponse()
        raw = answer.read()
        took = (time.perf_counter() - started) * 1000
        if answer.status != 200:
            raise SystemExit(raw.decode())
        body = json.loads(raw)
        if not body["servers"]:
            break
        times.append(took)
        page, found = raw, found + len(body["servers"])
        links = body.get("servers_links")
        following = None if links is None else urlsplit(links[0]["href"])._replace(scheme="", netloc="").geturl()
    connection.close()
    return times, found, page


def floor_ms(file: Path, page: bytes) -> float:
    """Return the median time to read the rows of a page and encode its reply. Units: milliseconds."""
    connection = sqlite3.connect(file)
    body = orjson.loads(page)
    joined = "SELECT * FROM instances i JOIN request_specs r ON r.uuid = i.request_spec_uuid"
    order = "WHERE i.deleted = 0 AND i.project_id = 'p' ORDER BY i.created_at DESC, i.id DESC LIMIT ?"

    def read_and_encode() -> None:
        connection.execute(f"{joined} {order}", (PAGE,)).fetchall()
        orjson.dumps(body)

    read_and_encode()
    taken = statistics.median(_ms(read_and_encode) for _ in range(20))
    connection.close()
    return taken


def _ms(work: Callable[[], Any]) -> float:
    started = time.perf_counter()
    work()
    return (time.perf_counter() - started) * 1000


def main(arguments: list[str]) -> None:
    servers = int(arguments[0]) if arguments else SERVERS
    with TemporaryDirectory(prefix="kilonova-bench-") as name:
        folder = Path(name)
        fill(f"sqlite:///{folder}/kilonova.db", servers)
        cloud = Cloud(folder, hosts=1)
        try:
            for path, version, token in _ASKED:
                times: list[float] = []
                page = b""
                for _ in range(_ROUNDS):
                    taken, found, page = walk(cloud.port, path, version, token)
                    if found != servers:
                        raise SystemExit(f"{found} servers were listed")
                    times += taken
                floor = floor_ms(folder / "kilonova.db", page)
                who = "admin" if token == "admin" else "member"
                print(
                    f"GET /{path:14} {version:>5} as {who:6}: {PAGE} of {servers:,} servers in p50 "
                    f"{statistics.median(times):6.1f} ms, p95 {sorted(times)[int(len(times) * 0.95)]:6.1f} ms "
                    f"(goal <= {GOAL_MS:g}) | {len(page) / 1024:5.0f} KiB | floor {floor:5.1f} ms",
                    flush=True,
                )
        finally:
            cloud.stop()


if __name__ == "__main__":
    main([])
