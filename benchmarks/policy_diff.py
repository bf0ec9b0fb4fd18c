# SPDX-License-Identifier: Apache-2.0
"""Speed of policy diffs over the decision log: how many stored decisions are repeated per minute.

The decisions are claims of a claimer on 1,000 hosts in SQLite, for 20 flavors: one server each, and one in ten requests
for 5 servers. *nothing*: no change of policy. *removed*: without the filter that reads metadata of aggregates.
*weights*: memory is packed, so that most servers go elsewhere. *metadata*: an aggregate of 100 hosts loses metadata.

    python -m benchmarks policy_diff [-- HOSTS [DECISIONS]]
"""

import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from benchmarks._seeded_cloud import FLAVOR, add_hosts, fresh_database, waiting_orders
from benchmarks.claims import _place
from kilonova.claims.checkpointer import Checkpointer
from kilonova.claims.claimer import Claimer, Order
from kilonova.claims.decision_log import DecisionLog
from kilonova.claims.policy_diff import Policies, policy_diff
from kilonova.cli.wiring.rules import build_engine
from kilonova.config.scheduler import scheduling_digest
from kilonova.db import aggregates, decisions
from kilonova.db.core.transaction import Transaction
from kilonova.db.database import Database
from kilonova.mirror.mirror import Mirror
from kilonova.planning.policy_change import AggregateChange, PolicyChange
from kilonova.scheduler.engine.rule_change import RuleSet
from kilonova.scheduler.settings import SchedulerConfig

HOSTS, DECISIONS, FLAVORS = 1_000, 10_000, 20
GOAL_PER_MINUTE = 100_000
PRESENT = SchedulerConfig(
    enabled_filters=(*SchedulerConfig().enabled_filters, "AggregateInstanceExtraSpecsFilter", "NumInstancesFilter"),
    max_instances_per_host=1_000,
)


def rules(config: SchedulerConfig) -> RuleSet:
    return RuleSet(build_engine(config), {}, scheduling_digest(config))


def make_log(database: Database, hosts: int, count: int) -> int:
    """Store decisions of a cloud with two aggregates, and return the id of one."""
    add_hosts(database, hosts)

    def group(tx: Transaction) -> int:
        ids = []
        for number in range(2):
            made = aggregates.create(tx, f"rack{number}")
            aggregates.set_metadata(tx, made.id, {"ssd": "true" if number else "false"})
            for row in range(number, hosts, 10):
                aggregates.add_host(tx, made.id, f"compute{row:06d}", default_zone="nova")
            ids.append(made.id)
        return ids[1]

    aggregate = database.write(group)
    started = time.time()
    mirror = Mirror.follow(database, clock=lambda: started)
    Checkpointer(database, 9, every=timedelta(0)).take_if_due()
    log = DecisionLog(database, 1_000_000, configuration=scheduling_digest(PRESENT))
    claimer = Claimer(database, mirror, build_engine(PRESENT), "bench", log)
    many = count // 14  # one in ten requests is for five servers
    orders = waiting_orders(database, "bench", many * 9) + waiting_orders(database, "bench", many, servers=5)
    orders = [_varied(order, number) for number, order in enumerate(orders)]
    orders.sort(key=lambda order: order.jobs[0].instance_uuid)
    _place(claimer, orders, 4)
    database.write(lambda tx: tx.now)
    return aggregate


def _varied(order: Order, number: int) -> Order:
    kind = number % FLAVORS
    specs = {"aggregate_instance_extra_specs:ssd": "true"} if kind % 10 == 3 else {}
    sizes = {"memory_mib": 1_024 + 128 * kind, "root_gib": 10 + kind % 3}
    flavor = replace(FLAVOR, flavor_id=str(kind), name=f"f{kind}", extra_specs=specs, **sizes)
    uuids = tuple(job.instance_uuid for job in order.jobs)
    return replace(order, spec=replace(order.spec, flavor=flavor, instance_uuids=uuids))


def main(options: Sequence[str] = ()) -> None:
    hosts, count = (*map(int, options), HOSTS, DECISIONS)[:2] if len(options) != 1 else (int(options[0]), DECISIONS)
    with fresh_database("sqlite") as database:
        aggregate = make_log(database, hosts, count)
        without = tuple(name for name in PRESENT.enabled_filters if name != "AggregateInstanceExtraSpecsFilter")
        changes = {
            "nothing": (PRESENT, PolicyChange()),
            "removed": (replace(PRESENT, enabled_filters=without), PolicyChange()),
            "weights": (replace(PRESENT, ram_weight_multiplier=-1.0), PolicyChange()),
            "metadata": (PRESENT, PolicyChange(aggregates={aggregate: AggregateChange({"ssd": None})})),
        }
        with database.read() as connection:
            places = decisions.newest(connection, 10 * count)
            print(f"{hosts} hosts, {len(places)} stored decisions, goal {GOAL_PER_MINUTE} a minute")
            for name, (config, change) in changes.items():
                wall, busy = time.perf_counter(), time.process_time()
                found = policy_diff(connection, Policies(rules(PRESENT), rules(config), change), places)
                wall, busy = time.perf_counter() - wall, time.process_time() - busy
                print(
                    f"  {name:<10}{found.differs:7} differ  {dict(found.undecided)}  {wall:6.2f} s  processor time"
                    f" {busy:6.2f} s  {len(places) / busy * 60:9.0f} decisions a minute",
                    flush=True,
                )


if __name__ == "__main__":
    main()
