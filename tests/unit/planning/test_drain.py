# SPDX-License-Identifier: Apache-2.0
from collections.abc import Mapping, Sequence
from typing import Any

from kilonova.cli.wiring.rules import build_engine
from kilonova.model.flavor import Flavor
from kilonova.model.host import NODE_TRAITS
from kilonova.model.move_plan import How
from kilonova.model.provider import Inventory
from kilonova.model.request_spec import RequestSpec
from kilonova.model.server_group import GroupView
from kilonova.model.server_migration import MoveKind
from kilonova.planning.cloud import Cloud
from kilonova.planning.drain import DrainRequest, drain
from kilonova.planning.hindrance import Hindrance
from kilonova.planning.near_misses import near_misses
from kilonova.planning.plan import Plan
from kilonova.planning.planned_server import PlannedServer
from kilonova.scheduler.guests import guest_of
from kilonova.scheduler.host_records import HostRecord, build_host_table
from kilonova.scheduler.resources import with_resources
from kilonova.scheduler.settings import SchedulerConfig

LIVE, COLD = MoveKind.LIVE_MIGRATE, MoveKind.COLD_MIGRATE
ENGINE = build_engine(SchedulerConfig())


def server(uuid: str, row: int, vcpus: int, **facts: Any) -> PlannedServer:
    spec = with_resources(RequestSpec(Flavor(str(vcpus), f"m{vcpus}", vcpus, 1024, vcpus)))
    held = {f"host{row}": dict(spec.query.totals)}
    facts = {"disk_gib": vcpus, "memory_gib": 1.0, **facts}
    return PlannedServer(uuid=uuid, row=row, spec=spec, allocations=held, guest=guest_of(spec), **facts)


def cloud_of(sizes: Sequence[int], *servers: PlannedServer, groups: Mapping[str, GroupView] | None = None) -> Cloud:
    """Return a cloud of hosts with these numbers of CPUs."""
    records = [
        HostRecord(
            f"host{row}",
            (Inventory("VCPU", size), Inventory("MEMORY_MB", 100_000), Inventory("DISK_GB", 1000)),
            traits=frozenset(NODE_TRAITS),
            num_instances=sum(each.row == row for each in servers),
            instances=tuple(each.uuid for each in servers if each.row == row),
            used={"VCPU": sum(each.spec.flavor.vcpus for each in servers if each.row == row)},
        )
        for row, size in enumerate(sizes)
    ]
    return Cloud(build_host_table(records), ENGINE, servers, groups)


def moves_of(plan: Plan) -> list[tuple[str, int, int, int]]:
    return [(move.server.uuid, move.source, move.row, move.wave) for move in plan.moves]


def empty(host: str, **options: Any) -> DrainRequest:
    return DrainRequest(frozenset({host}), **options)


def test_each_server_leaves_by_one_move() -> None:
    cloud = cloud_of([4, 4], server("a", 0, 2), server("b", 0, 1))
    plan = drain(cloud, empty("host0"))
    assert moves_of(plan) == [("a", 0, 1, 0), ("b", 0, 1, 0)]
    assert (plan.waves, plan.gib, plan.stays) == (1, 5.0, ())


def test_large_servers_choose_tight_hosts_if_others_would_find_none() -> None:
    cloud = cloud_of([8, 3, 5], server("a", 0, 3), server("b", 0, 5))
    assert {(uuid, row) for uuid, _, row, _ in moves_of(drain(cloud, empty("host0")))} == {("a", 1), ("b", 2)}


def test_another_server_makes_room_if_nothing_else_helps() -> None:
    small, large = server("small", 1, 1), server("large", 2, 2, disk_gib=50)
    cloud = cloud_of([4, 4, 4, 2], server("a", 0, 4), small, large, server("full", 3, 1))
    plan = drain(cloud, empty("host0"))
    assert moves_of(plan) == [("small", 1, 2, 0), ("a", 0, 1, 1)] or moves_of(plan) == [
        ("small", 1, 3, 0),
        ("a", 0, 1, 1),
    ]
    assert plan.stays == ()


def test_a_server_without_a_host_stays_with_the_nearest_miss() -> None:
    cloud = cloud_of([4, 2], server("a", 0, 4))
    plan = drain(cloud, empty("host0"))
    (stay,) = plan.stays
    assert stay.reason == "no host can take the server"
    assert Hindrance("Placement: VCPU", "cannot give 4 VCPU", 1) in stay.rules
    assert near_misses(cloud, plan)["a"].changes


def test_members_of_an_affinity_group_cannot_leave_each_other() -> None:
    group = GroupView("g", "affinity", 1, {"host0": 2})
    cloud = cloud_of([4, 4], *(server(uuid, 0, 1, group_uuid="g") for uuid in "ab"), groups={"g": group})
    plan = drain(cloud, empty("host0"))
    assert not plan.moves
    assert all("affinity and 1 more member" in stay.reason for stay in plan.stays)


def test_the_kind_of_a_move_follows_the_option_and_the_server() -> None:
    stopped = {LIVE: "the server is stopped"}
    cloud = cloud_of([4, 4], server("a", 0, 1), server("b", 0, 1, hindrances=stopped), server("c", 0, 1, locked=True))
    kinds = {how: {move.server.uuid: move.kind for move in drain(cloud, empty("host0", how=how)).moves} for how in How}
    assert kinds == {How.LIVE: {"a": LIVE}, How.COLD: {"a": COLD, "b": COLD}, How.EITHER: {"a": LIVE, "b": COLD}}
    reasons = {stay.server.uuid: stay.reason for stay in drain(cloud, empty("host0", how=How.LIVE)).stays}
    assert reasons == {"b": "the server is stopped", "c": "the server is locked"}
    assert not drain(cloud, empty("host0", locked_too=True)).stays


def test_hosts_to_avoid_are_no_destinations() -> None:
    cloud = cloud_of([4, 8, 4], server("a", 0, 1))
    plan = drain(cloud, empty("host0", avoiding=frozenset({"host1"})))
    assert moves_of(plan) == [("a", 0, 2, 0)]


def test_an_unknown_host_is_empty() -> None:
    assert drain(cloud_of([4]), empty("none")) == Plan(())
