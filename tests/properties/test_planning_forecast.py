# SPDX-License-Identifier: Apache-2.0
"""A forecast places servers as full decisions one after the other do, and leaves nothing behind when all have left."""

import heapq
from dataclasses import replace
from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kilonova.errors import InvalidRequest
from kilonova.model.host_devices import DeviceShare
from kilonova.model.server_group import GroupView
from kilonova.planning.forecast.forecast import Beginning, Forecast, forecast
from kilonova.planning.forecast.run import Policy
from kilonova.planning.forecast.scenario import Scenario, scenario_of
from kilonova.planning.forecast.server_kinds import Catalog, KindName, Kinds, ServerKind
from kilonova.planning.forecast.virtual_cloud import always_up
from kilonova.planning.forecast.workload import NONE, Servers
from kilonova.scheduler.devices.choice import first_that_gives
from kilonova.scheduler.engine.engine import Engine
from kilonova.scheduler.host_table import HostTable
from kilonova.scheduler.resources import with_resources
from support.planned_clouds import ALIASES, POLICIES, random_cloud, random_spec
from support.samples import sampled


def drawn(chance: Random, seed: int) -> tuple[HostTable, Engine, Kinds, Servers, list[GroupView]]:
    """Return the hosts of a random cloud, and random servers, some of them in groups. Raises: InvalidRequest."""
    cloud = random_cloud(seed, servers=(0, 6))
    kinds = Kinds(Catalog({}, aliases=ALIASES))
    for number in range(chance.randint(1, 4)):
        spec = replace(with_resources(random_spec(chance, [])), group=None, instance_uuids=())
        kinds.add(ServerKind.of(KindName(str(number)), spec, ALIASES))
    count = chance.randint(1, 40)
    times = np.array([chance.choice((0.0, 5.0, chance.uniform(0, 100))) for _ in range(count)])
    lives = np.array([chance.choice((5.0, chance.uniform(1, 60))) for _ in range(count)])
    made = Servers.of(times, lives, np.array([chance.randrange(len(kinds.all)) for _ in range(count)], dtype=np.int64))
    groups = [GroupView(f"group-{each}", chance.choice(POLICIES)) for each in range(2)]
    made.group[:] = [chance.choice((NONE, NONE, 0, 1)) for _ in range(count)]
    return always_up(cloud.hosts, 60), cloud.engine, kinds, made, groups


def run(
    hosts: HostTable, engine: Engine, kinds: Kinds, made: Servers, groups: list[GroupView], **more: object
) -> Forecast:
    asked: Scenario = scenario_of({"length": "1000s", "interval": "500s", **more})
    return forecast(
        asked,
        Beginning(hosts=hosts, kinds=kinds, traces=(made,), groups=groups),
        [Policy(name="one", engine=engine)],
        clock_ns=lambda: 0,
    )


def full_decisions(hosts: HostTable, engine: Engine, kinds: Kinds, made: Servers, groups: list[GroupView]) -> list[int]:
    """Return the row of each server's host: each server is decided by the whole engine, on a table made for it."""
    rows: dict[int, int] = {}
    present: dict[int, tuple[int, DeviceShare | None]] = {}
    queue = [(at, 1, number) for number, at in enumerate(made.arrival.tolist())]
    heapq.heapify(queue)
    while queue:
        _, arrives, number = heapq.heappop(queue)
        if not arrives:
            present.pop(number, None)
            continue
        heapq.heappush(queue, (float(made.departure[number]), 0, number))
        table = hosts.with_own_use()
        members = [GroupView(each.uuid, each.policy, each.max_server_per_host) for each in groups]
        for other, (row, share) in present.items():
            kind = kinds.all[made.kind[other]]
            table.count_server(row, engine.allocations(table, kind.spec, row), kind.guest, share)
            table.num_io_ops[row] -= 1
            if made.group[other] != NONE:
                members[made.group[other]] = members[made.group[other]].with_members(table.hosts[row])
        kind = kinds.all[made.kind[number]]
        spec = kind.spec if made.group[number] == NONE else replace(kind.spec, group=members[made.group[number]])
        table = replace(table, last_seen=np.where(np.isinf(table.last_seen), table.taken_at, table.last_seen))
        best, share = first_that_gives(engine.decide(table, spec, limit=10), table, kind.needs)
        rows[number] = NONE if best is None else best.row
        if best is not None:
            present[number] = best.row, share
    return [rows[number] for number in range(len(made))]


@settings(deadline=None, max_examples=sampled(2000, sample=40))
@given(seed=st.integers(0, 2**32))
def test_a_forecast_is_what_full_decisions_give(seed: int) -> None:
    try:
        hosts, engine, kinds, made, groups = drawn(Random(seed), seed)
    except InvalidRequest:
        return
    found = run(hosts, engine, kinds, made, groups)
    assert found.outcomes[0].first_row.tolist() == full_decisions(hosts, engine, kinds, made, groups)


@settings(deadline=None, max_examples=sampled(1000, sample=25))
@given(seed=st.integers(0, 2**32))
def test_nothing_is_left_when_all_servers_have_left(seed: int) -> None:
    chance = Random(seed)
    try:
        hosts, engine, kinds, made, groups = drawn(chance, seed)
    except InvalidRequest:
        return
    made.resized_at[:] = np.where(np.array([chance.random() < 0.3 for _ in range(len(made))]), made.arrival + 1, np.inf)
    made.resized_to[:] = [chance.randrange(len(kinds.all)) for _ in range(len(made))]
    more = {"failures": {"mtbf": "300s", "repair": {"distribution": "exponential", "mean": "50s"}}}
    used, counted = hosts.used.tobytes(), hosts.num_instances.tolist()
    found, again = (run(hosts, engine, kinds, made, groups, **more) for _ in range(2))
    assert found.report() == again.report()
    assert found.outcomes[0].first_row.tolist() == again.outcomes[0].first_row.tolist()
    assert (hosts.used.tobytes(), hosts.num_instances.tolist()) == (used, counted), "the given table does not change"
    last = found.outcomes[0].intervals[-1]
    assert last.servers == 0
    for name, each in last.usage.items():
        column = hosts.column(name)
        assert column is not None
        assert each.used == hosts.used[:, column].sum() / hosts.capacity[:, column].sum()
