# SPDX-License-Identifier: Apache-2.0
"""One request for many servers of an anti-affinity group: time of the decisions alone, and with durable claims.

python -m benchmarks multi_create [-- HOSTS SERVERS [DATABASE ...]]
"""

import statistics
import time
from collections.abc import Sequence
from dataclasses import replace

from benchmarks._seeded_cloud import add_hosts, fresh_database, waiting_orders
from kilonova.claims.claimer import Claimer
from kilonova.claims.decision_log import DecisionLog
from kilonova.cli.wiring.rules import build_engine
from kilonova.db import server_groups
from kilonova.db.database import Database
from kilonova.identifiers import new_uuid
from kilonova.mirror.mirror import Mirror
from kilonova.model.server_group import ServerGroup
from kilonova.scheduler.engine.batch import Batch
from kilonova.scheduler.resources import with_resources
from kilonova.scheduler.settings import SchedulerConfig

HOSTS, SERVERS, ROUNDS, GOAL_MS = 10_000, 1_000, 5, 200
DATABASES = ("sqlite", "postgresql", "mariadb")
_DECISIONS_KEPT = 10_000


def measure(database: Database, hosts: int, servers: int) -> None:
    add_hosts(database, hosts)
    started = time.time()
    mirror = Mirror.follow(database, clock=lambda: started)  # hosts stay up without heartbeats: the clock is fixed
    engine = build_engine(SchedulerConfig())
    claimer = Claimer(database, mirror, engine, "bench", DecisionLog(database, _DECISIONS_KEPT))
    deciding, placing, computing = [], [], []
    for _ in range(ROUNDS):
        group = ServerGroup(new_uuid(), "group", "anti-affinity", "project", "user")
        database.write(lambda tx, group=group: server_groups.create(tx, group, limit=-1))  # type: ignore[misc]
        order = replace(waiting_orders(database, "bench", 1, servers=servers)[0], group_uuid=group.uuid)
        spec = replace(with_resources(order.spec), group=mirror.group(group.uuid))
        start = time.perf_counter()
        batch = Batch(engine, mirror.snapshot(), spec, limit=3)
        for _ in range(servers):
            batch.place(batch.decide().ranked[0].row)
        deciding.append(time.perf_counter() - start)
        start, used = time.perf_counter(), time.process_time()
        claimer.place(order)
        placing.append(time.perf_counter() - start)
        computing.append(time.process_time() - used)
    decide, place, compute = (statistics.median(times) * 1e3 for times in (deciding, placing, computing))
    print(
        f"  {servers} servers: decide {decide:.0f} ms, decide and claim {place:.0f} ms, "
        f"CPU time {compute:.0f} ms (goal {GOAL_MS} ms)",
        flush=True,
    )


def main(options: Sequence[str] = ()) -> None:
    hosts, servers = (int(options[0]), int(options[1])) if len(options) > 1 else (HOSTS, SERVERS)
    for backend in options[2:] or DATABASES:
        with fresh_database(backend) as database:
            print(f"{backend}, {hosts} hosts")
            measure(database, hosts, servers)


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
