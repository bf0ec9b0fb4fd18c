# SPDX-License-Identifier: Apache-2.0
"""No interleaving of claims, releases and lowered inventories exceeds a capacity or violates a group policy."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kilonova.claims.claimer import Order
from kilonova.conductor.workflows.release import release_claim
from kilonova.db import instances
from kilonova.db.core.transaction import Transaction
from kilonova.db.workflows import WorkflowRow
from kilonova.errors import NoValidHost
from kilonova.mirror.mirror import Mirror
from kilonova.model.flavor import Flavor
from support.cell import Cell, host, new_cell
from support.mirrors import assert_equal, assert_use_adds_up
from support.orders import order
from support.samples import sampled
from support.world import check_books

FLAVORS = st.builds(
    lambda vcpus, memory: Flavor(f"{vcpus}-{memory}", "f", vcpus, memory, 1), st.integers(1, 3), st.integers(1, 4)
)
HOSTS = st.lists(st.tuples(st.integers(1, 6), st.integers(1, 8)), min_size=1, max_size=4)
ORDERS = st.lists(
    st.tuples(st.integers(1, 4), FLAVORS, st.sampled_from([None, "affinity", "anti-affinity"]), st.booleans()),
    min_size=1,
    max_size=12,
)


def run(cell: Cell, wanted: Order, group: str | None, *, released: bool) -> None:
    try:
        placed = cell.claimer.place(wanted)
    except NoValidHost:
        return
    for flow in placed.workflows if released else ():

        def free(tx: Transaction, flow: WorkflowRow = flow) -> None:
            release_claim(tx, flow.instance_uuid, group, flow.facts["host"])
            instances.mark_deleted(tx, flow.instance_uuid)

        cell.database.write(free)


@settings(
    max_examples=sampled(15, sample=5), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(HOSTS, ORDERS)
def test_capacity_and_groups_hold(sqlite_template: Path, sizes: list[tuple[int, int]], asked: list[Any]) -> None:
    with TemporaryDirectory() as place:
        hosts = [host(f"n{index}", vcpus=cpu, memory_mib=ram) for index, (cpu, ram) in enumerate(sizes)]
        cell = new_cell(sqlite_template, Path(place), *hosts)
        groups = {policy: cell.add_group(policy) for policy in ("affinity", "anti-affinity")}
        ready = [
            (order(cell, count, flavor=flavor, group=groups.get(policy)), groups.get(policy), released)
            for count, flavor, policy, released in asked
        ]
        start = threading.Barrier(len(ready))

        def one(item: tuple[Order, str | None, bool]) -> None:
            start.wait(30)
            run(cell, item[0], item[1], released=item[2])

        with ThreadPoolExecutor(len(ready)) as pool:
            list(pool.map(one, ready))
        with cell.database.read() as connection:
            check_books(connection)
        assert not cell.mirror.assumed()
        assert_use_adds_up(cell.mirror)
        assert_equal(cell.mirror, Mirror.follow(cell.database))
        cell.database.close()
