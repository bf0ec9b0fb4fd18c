# SPDX-License-Identifier: Apache-2.0
"""Time to plan the drain of a host, from the database to the plan; and to load all servers of the cloud.

1,000 hosts with 100 servers each, in SQLite.

    python -m benchmarks drain
"""

import statistics
import time
from typing import Any

import sqlalchemy as sa

from benchmarks._seeded_cloud import FLAVOR, add_hosts, fresh_database
from kilonova.claims.cloud_snapshot import cloud_snapshot
from kilonova.cli.wiring.rules import build_engine
from kilonova.db import request_specs
from kilonova.db.core import tables as t
from kilonova.db.core.transaction import Transaction
from kilonova.db.database import Database
from kilonova.identifiers import new_uuid
from kilonova.mirror.mirror import Mirror
from kilonova.model.ability import Ability
from kilonova.model.request_spec import RequestSpec, StoredRequest
from kilonova.planning.drain import DrainRequest, drain
from kilonova.planning.plan import Limits
from kilonova.scheduler.settings import SchedulerConfig

_HOSTS, _SERVERS = 1_000, 100
_GOAL_S = 1.0
_REPEATS = 5


def _with_requests(database: Database) -> None:
    """Give all servers a stored request, mark them as launched, and give all hosts all abilities."""
    request = StoredRequest(new_uuid(), RequestSpec(FLAVOR, project_id="p", user_id="u"))

    def store(tx: Transaction) -> None:
        request_specs.insert(tx, [request])
        tx.execute(sa.update(t.instances).values(request_spec_uuid=request.uuid, launched_at=tx.now))
        tx.execute(sa.update(t.compute_nodes).values(abilities=sorted(Ability)))

    database.write(store)


def _timed(name: str, run: Any) -> tuple[float, Any]:
    times, used, found = [], [], None
    for _ in range(_REPEATS):
        began, cpu = time.perf_counter(), time.process_time()
        found = run()
        times.append(time.perf_counter() - began)
        used.append(time.process_time() - cpu)
    print(
        f"{name:44} {statistics.median(times):6.3f} s, {statistics.median(used):6.3f} s of processor time", flush=True
    )
    return statistics.median(times), found


def main(_arguments: list[str]) -> None:
    engine = build_engine(SchedulerConfig())
    with fresh_database("sqlite") as database:
        add_hosts(database, _HOSTS, servers_on_each=_SERVERS)
        _with_requests(database)
        mirror = Mirror.follow(database)
        host = mirror.hosts().hosts[0]

        def planned() -> tuple[int, int, int]:
            cloud = cloud_snapshot(database, mirror, engine, on_hosts={host}).cloud
            plan = drain(cloud, DrainRequest(frozenset({host}), limits=Limits(per_host=10)))
            return len(plan.moves), len(plan.stays), plan.waves

        took_s, found = _timed(f"drain of {_SERVERS} servers on {_HOSTS:,} hosts", planned)
        verdict = "" if took_s <= _GOAL_S else f"  MISSED: goal {_GOAL_S} s"
        print(f"{found[0]} moves in {found[2]} waves, {found[1]} stay{verdict}")
        _timed(f"load of all {_HOSTS * _SERVERS:,} servers", lambda: cloud_snapshot(database, mirror, engine))
