# SPDX-License-Identifier: Apache-2.0
"""A cloud after any moves and undone branches equals one that is built from the places of its servers."""

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kilonova.model.server_migration import MoveKind
from kilonova.planning.cloud import BegunMove, Cloud
from kilonova.planning.planned_server import KINDS
from kilonova.scheduler.engine.kept_decisions import KeptDecisions, differences
from support.planned_clouds import Drawn, drawn_cloud, filled, random_server
from support.samples import sampled

COLUMNS = ("used", "num_instances", "num_io_ops")


def state_of(cloud: Cloud) -> dict[str, Any]:
    """Return everything that rules can read of the cloud's changes."""
    hosts = cloud.hosts
    rows = {server.uuid: cloud.row_of(server) for server in cloud.servers.values()}
    kinds = {server.guest for server in cloud.servers.values() if rows[server.uuid] is not None}
    return {
        **{name: getattr(hosts, name).tolist() for name in COLUMNS},
        "devices": [hosts.devices_of(row) for row in range(len(hosts))],
        "flavors": {kind.flavor_id: hosts.guests.of_other_flavors(kind.flavor_id).tolist() for kind in kinds},
        "properties": hosts.guests.with_image_property("os_distro", "debian").tolist(),
        "groups": {uuid: dict(group.hosts) for uuid, group in cloud.groups.items()},
        "rows": {uuid: row for uuid, row in rows.items() if row is not None},
        "rows of the table": dict(hosts.instance_rows),
        "servers": {row: [each.uuid for each in cloud.servers_on(row)] for row in range(len(hosts))},
    }


def from_scratch(drawn: Drawn, cloud: Cloud) -> dict[str, Any]:
    """Return the state of an empty cloud in which each server takes what it holds in ``cloud``."""
    fresh = drawn.empty()
    for server in cloud.servers.values():
        held = cloud.held(server)
        if held is not None:
            fresh.servers[server.uuid], fresh._held[server.uuid] = server, None
            fresh._count(held, server.guest, 1)
            fresh._join(server, None, held.row)
            fresh._record(server, held)
    state = state_of(fresh)
    for uuid, group in fresh.groups.items():
        if group.policy == "affinity":  # the host of such a group depends on the order of its members
            state["groups"].pop(uuid)
    return state


def change(chance: Random, cloud: Cloud, begun: list[BegunMove], depth: int = 2) -> None:
    """Make a random change; a branch undoes its own."""
    servers = [each for each in cloud.servers.values() if each not in {move.server for move in begun}]
    what = chance.choice(("move", "move", "begin", "end", "off", "on", "branch"))
    if what == "branch" and depth:
        before, own = state_of(cloud), list(begun)
        with cloud.branch():
            for _ in range(chance.randint(1, 6)):
                change(chance, cloud, own, depth - 1)
        assert state_of(cloud) == before, "a branch undoes its changes"
    elif what == "end" and begun:
        cloud.end_move(begun.pop(chance.randrange(len(begun))))
    elif servers:
        server = chance.choice(servers)
        if what == "off" and cloud.row_of(server) is not None:
            cloud.take_off(server)
        elif what == "on" and cloud.row_of(server) is None:
            ranked = cloud.decide(server, None).ranked
            if ranked:
                cloud.place(server, ranked[0].row)
        elif what in {"move", "begin"} and cloud.row_of(server) is not None:
            kind = chance.choice(KINDS)
            ranked = cloud.decide(server, kind).ranked
            if ranked:
                move = cloud.begin_move(server, cloud.destination(server, chance.choice(ranked).row), kind)
                begun.append(move)
                if what == "move":
                    cloud.end_move(begun.pop())


@settings(deadline=None, max_examples=sampled(1000, sample=40))
@given(seed=st.integers(0, 2**32))
def test_a_changed_cloud_equals_one_built_from_scratch(seed: int) -> None:
    chance = Random(seed)
    drawn = drawn_cloud(chance, chance.randint(2, 6))
    cloud = filled(chance, drawn, chance.randint(1, 20))
    kept = KeptDecisions(cloud.engine)
    probes = [random_server(chance, f"probe{number}", [], drawn) for number in range(3)]
    begun: list[BegunMove] = []
    for _ in range(chance.randint(1, 20)):
        change(chance, cloud, begun)
        for probe in probes:
            spec = cloud.request(probe, None)
            mine = kept.decide(cloud.live, cloud.hosts.taken_at, spec, limit=3)
            assert not differences(mine, cloud.engine.decide(cloud.hosts, spec, limit=3))
    for move in begun:
        cloud.end_move(move)
    expected, found = from_scratch(drawn, cloud), state_of(cloud)
    found["groups"] = {uuid: found["groups"][uuid] for uuid in expected["groups"]}
    assert found == expected


def test_a_change_does_not_touch_the_given_table() -> None:
    chance = Random(7)
    cloud = filled(chance, drawn_cloud(chance, 4), 20)
    given_table = cloud.hosts
    before = {name: getattr(given_table, name).tobytes() for name in (*COLUMNS, "devices")}
    copy = Cloud(given_table, cloud.engine, cloud.servers.values(), cloud.groups)
    for server in list(copy.servers.values()):
        for ranked in copy.decide(server, MoveKind.COLD_MIGRATE).ranked[:1]:
            copy.move(server, ranked.row)
    assert {name: getattr(given_table, name).tobytes() for name in (*COLUMNS, "devices")} == before
    assert not np.array_equal(copy.hosts.used, given_table.used)


def test_an_exception_undoes_a_branch() -> None:
    chance = Random(8)
    cloud = filled(chance, drawn_cloud(chance, 4), 20)
    before = state_of(cloud)
    with pytest.raises(ZeroDivisionError), cloud.branch():
        for server in list(cloud.servers.values()):
            cloud.take_off(server)
        raise ZeroDivisionError
    assert state_of(cloud) == before
