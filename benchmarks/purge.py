# SPDX-License-Identifier: Apache-2.0
"""Duration of ``kilonova db purge``, and the delay that it causes for writes of other processes.

The database has 100,000 deleted servers with their records (request spec, decision, tags, fault, instance actions)
among 10,000 existing ones. The purge runs as a separate process, as operators run it. This process writes one small
transaction every 20 ms, first alone and then during the purge.

    python -m benchmarks purge [-- SERVERS [DATABASE ...]]
"""

import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

import sqlalchemy as sa

from benchmarks._seeded_cloud import FLAVOR, fresh_database
from kilonova.clock import utc_now
from kilonova.db import decisions, instances, purge, request_specs
from kilonova.db.core import tables as t
from kilonova.db.core.transaction import Transaction
from kilonova.db.database import Database
from kilonova.model.instance import Fault, Instance, VmState
from kilonova.model.request_spec import RequestSpec, StoredRequest

SERVERS = 100_000
DATABASES = ("sqlite", "postgresql")
_LIVING_SHARE = 10
_AT_ONCE = 1_000
_PAUSE_S = 0.02
_ALONE_S = 5.0


def add_servers(database: Database, count: int, *, deleted: bool) -> None:
    for start in range(0, count, _AT_ONCE):
        some = min(_AT_ONCE, count - start)
        database.write(lambda tx: _add(tx, some, deleted=deleted))  # noqa: B023


def _add(tx: Transaction, count: int, *, deleted: bool) -> None:
    servers = [
        Instance(
            0, str(uuid4()), "vm", "p", "u", VmState.ACTIVE, FLAVOR, tags=("a", "b"), request_spec_uuid=str(uuid4())
        )
        for _ in range(count)
    ]
    instances.insert(tx, [(server, None) for server in servers])
    spec = RequestSpec(flavor=FLAVOR, image=None, project_id="p", user_id="u", request_id="req")
    request_specs.insert(tx, [StoredRequest(str(server.request_spec_uuid), spec, None, None) for server in servers])
    inputs = {server.uuid: str(uuid4()) for server in servers}
    decisions.insert_inputs(tx, dict.fromkeys(inputs.values(), b"x" * 500))
    decided = {"request_id": "req", "created_at": tx.now, "seq": 1, "body": {"chosen": "node1"}}
    decided |= {"removed_by": b"x" * 500, "roster": "r"}
    tx.execute(
        sa.insert(t.decisions),
        [
            {**decided, "instance_uuid": uuid, "circumstances_id": uuid_of_inputs}
            for uuid, uuid_of_inputs in inputs.items()
        ],
    )
    done = {"action": "create", "request_id": "req", "user_id": "u", "project_id": "p", "started_at": tx.now}
    tx.execute(sa.insert(t.instance_actions), [{**done, "instance_uuid": server.uuid} for server in servers])
    step = {"request_id": "req", "event": "spawn", "started_at": tx.now}
    tx.execute(sa.insert(t.instance_action_events), [{**step, "instance_uuid": server.uuid} for server in servers])
    for server in servers[::10]:
        instances.record_fault(tx, server.uuid, Fault(500, "broke", "x" * 500))
    if deleted:
        uuids = [server.uuid for server in servers]
        gone = {"deleted": True, "deleted_at": tx.now - timedelta(days=100)}
        tx.execute(sa.update(t.instances).where(t.instances.c.uuid.in_(uuids)).values(**gone))


def waits(database: Database, goes_on: Callable[[], bool]) -> Iterator[float]:
    """Write a small transaction every 20 ms while ``goes_on``; yield the milliseconds of each."""
    number = 0
    while goes_on():
        number += 1
        name = f"project{number % 100}"
        began = time.perf_counter()
        database.write(lambda tx: _touch(tx, name))  # noqa: B023
        yield (time.perf_counter() - began) * 1000
        time.sleep(_PAUSE_S)


def _touch(tx: Transaction, name: str) -> None:
    tx.execute(sa.delete(t.quota_classes).where(t.quota_classes.c.class_name == name))
    tx.execute(sa.insert(t.quota_classes), {"class_name": name, "limits": {}})


def measure(database: Database, servers: int) -> None:
    began = time.perf_counter()
    add_servers(database, servers // _LIVING_SHARE // 2, deleted=False)
    add_servers(database, servers, deleted=True)
    add_servers(database, servers // _LIVING_SHARE // 2, deleted=False)
    print(f"  written in {time.perf_counter() - began:.0f} s", flush=True)
    ends_at = time.monotonic() + _ALONE_S
    alone = sorted(waits(database, lambda: time.monotonic() < ends_at))
    with TemporaryDirectory(prefix="kilonova-bench-") as folder:
        conf = Path(folder, "kilonova.conf")
        conf.write_text(f"[database]\nconnection = {database.url.render_as_string(hide_password=False)}\n")
        day = (utc_now() - timedelta(days=30)).date().isoformat()
        command = [sys.executable, "-m", "kilonova", "db", "purge", "--before", day, "--config-file", str(conf)]
        for words in (["--dry-run"], []):
            began = time.perf_counter()
            process = subprocess.Popen([*command, *words], stdout=subprocess.PIPE, text=True)
            beside = sorted(waits(database, lambda: process.poll() is None))  # noqa: B023
            took = time.perf_counter() - began
            print(f"  {' '.join(words) or 'purge'}: {took:.1f} s; {process.communicate()[0].strip()}", flush=True)
            _tell(alone, beside)
    with database.read() as connection:
        left = purge.kept_for_deleted(connection, utc_now())
        assert not any(left.values()), left
        assert connection.execute(sa.select(sa.func.count()).select_from(t.instances)).scalar() == servers // 10


def _tell(alone: Sequence[float], beside: Sequence[float]) -> None:
    for name, times in (("before the purge", alone), ("during the purge", beside)):
        late = times[int(len(times) * 0.99)]
        print(
            f"    write of another process {name}: median {statistics.median(times):.1f} ms, 99th {late:.1f} ms, "
            f"worst {times[-1]:.0f} ms of {len(times)}",
            flush=True,
        )


def main(options: Sequence[str] = ()) -> None:
    servers = int(options[0]) if options else SERVERS
    for backend in options[1:] or DATABASES:
        with fresh_database(backend) as database:
            print(backend, flush=True)
            measure(database, servers)


if __name__ == "__main__":
    main(sys.argv[1:])
