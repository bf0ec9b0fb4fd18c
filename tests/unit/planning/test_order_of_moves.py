# SPDX-License-Identifier: Apache-2.0
from random import Random
from typing import Any

import msgspec
import pytest

from kilonova.model.server_migration import MoveKind
from kilonova.planning.cloud import Cloud
from kilonova.planning.order_of_moves import in_waves
from kilonova.planning.plan import NO_LIMITS, Limits, PlannedMove
from kilonova.planning.planned_server import PlannedServer
from support.planned_clouds import drawn_cloud, engine_of, random_server

COLD = MoveKind.COLD_MIGRATE
CHANCE = Random(2)
DRAWN = drawn_cloud(CHANCE, 6)
PLAIN = next(
    each
    for each in (random_server(CHANCE, f"s{number}", [], DRAWN) for number in range(100))
    if not each.needs and not each.group_uuid and not each.spec.flavor.extra_specs
)


def server(uuid: str, **changed: Any) -> PlannedServer:
    return msgspec.structs.replace(PLAIN, uuid=uuid, **changed)


def waves(*moves: tuple[str | PlannedServer, int, int], limits: Limits = NO_LIMITS, cloud: Cloud | None = None) -> Any:
    planned = [
        PlannedMove(server(who) if isinstance(who, str) else who, source, row, COLD) for who, source, row in moves
    ]
    return [move.wave for move in in_waves(cloud or DRAWN.empty(), planned, limits)]


def test_independent_moves_are_one_wave() -> None:
    assert waves(("a", 0, 1), ("b", 0, 2), ("c", 3, 1)) == [0, 0, 0]


def test_a_move_to_a_host_waits_for_the_earlier_moves_from_it() -> None:
    assert waves(("a", 0, 1), ("b", 2, 0), ("c", 3, 2), ("d", 1, 4)) == [0, 1, 2, 0]


def test_a_server_that_moves_twice_has_two_waves() -> None:
    assert waves(("a", 0, 1), ("a", 1, 2)) == [0, 1]


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        (Limits(per_host=1), [0, 1, 0]),
        (Limits(per_wave=2), [0, 0, 1]),
        (Limits(gib_per_host=1.5 * PLAIN.copied_gib(COLD)), [0, 1, 0]),
        (Limits(gib_per_host=0.1), [0, 1, 0]),
    ],
)
def test_limits_of_a_wave(limits: Limits, expected: list[int]) -> None:
    assert waves(("a", 0, 1), ("b", 0, 2), ("c", 3, 4), limits=limits) == expected


def test_servers_that_hints_name_are_not_moved_in_the_same_wave() -> None:
    spec = msgspec.structs.replace(PLAIN).spec
    named = spec.__class__(**{name: getattr(spec, name) for name in spec.__slots__} | {"hints": {"same_host": ("a",)}})
    assert waves(("a", 0, 1), (server("b", spec=named), 0, 1)) == [0, 1]
    assert waves((server("b", spec=named), 0, 1), ("a", 0, 1)) == [0, 1]


def test_servers_with_devices_reach_a_host_one_by_one() -> None:
    chance = Random(4)
    several = (random_server(chance, f"d{number}", [], DRAWN) for number in range(200))
    first, second = [each for each in several if each.needs and each.spec.query.fallback is None][:2]
    found = waves((first, 0, 1), (second, 0, 1), (second, 1, 2), ("a", 0, 1))
    assert found[0] < found[1] < found[2]


def test_a_rule_that_may_depend_on_anything_makes_each_move_a_wave() -> None:
    class Unknown:
        run_once = runs_on_rebuild = False
        reason = "unknown"

        def passes(self, hosts: Any, _spec: Any) -> Any:
            return hosts.all_hosts

    engine = engine_of(Random(1))
    odd: Any = engine.__class__(engine.request_filters, (*engine.filters, Unknown()), engine.weighers)
    cloud = Cloud(DRAWN.empty().hosts, odd)
    assert waves(("a", 0, 1), ("b", 2, 3), cloud=cloud) == [0, 1]


def test_a_rule_that_depends_on_usage_is_asked_alone() -> None:
    cloud = Cloud(DRAWN.empty().hosts, engine_of(Random(1), "JsonFilter"))
    spec = PLAIN.spec
    query = {"hints": {"query": ('[">=", "$free_ram_mb", 1]',)}}
    asking = server("q", spec=spec.__class__(**{name: getattr(spec, name) for name in spec.__slots__} | query))
    assert waves(("a", 0, 1), (asking, 0, 1), ("b", 0, 1), ("c", 0, 2), cloud=cloud) == [0, 1, 2, 0]
