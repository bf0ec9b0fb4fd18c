# SPDX-License-Identifier: Apache-2.0
import pytest

from kilonova.model.aggregate import Aggregate
from kilonova.model.flavor import Flavor
from kilonova.model.provider import Inventory
from kilonova.model.request_spec import RequestSpec
from kilonova.model.server_group import GroupView
from kilonova.planning.cloud import Cloud
from kilonova.planning.losses import Losses
from kilonova.planning.planned_server import PlannedServer
from kilonova.scheduler.engine.engine import Engine
from kilonova.scheduler.filters.server_group_affinity import ServerGroupAffinityFilter
from kilonova.scheduler.guests import guest_of
from kilonova.scheduler.host_records import HostRecord, build_host_table
from kilonova.scheduler.resources import with_resources


def cloud_of(*servers: list[int], vcpus: int = 4, group: GroupView | None = None, zone: int = 0) -> Cloud:
    """Return a cloud with the VCPUs of the servers on each host; the first ``zone`` hosts are in the zone ``east``."""
    placed, records = [], []
    for row, sizes in enumerate(servers):
        records.append(HostRecord(f"n{row}", (Inventory("VCPU", vcpus),), uuid=f"u{row}", used={"VCPU": sum(sizes)}))
        for number, size in enumerate(sizes):
            spec = with_resources(RequestSpec(Flavor(str(size), f"m{size}", size, 0, 0)))
            placed.append(
                PlannedServer(
                    uuid=f"s{row}{number}",
                    row=row,
                    spec=spec,
                    allocations={f"u{row}": {"VCPU": size}},
                    guest=guest_of(spec),
                    group_uuid=None if group is None else group.uuid,
                )
            )
    east = Aggregate(1, "a", "east", tuple(f"n{row}" for row in range(zone)), {"availability_zone": "east"})
    engine = Engine(filters=(ServerGroupAffinityFilter(),))
    groups = {} if group is None else {group.uuid: group}
    return Cloud(build_host_table(records, [east]), engine, placed, groups)


@pytest.mark.parametrize("tries_all", [False, True])
def test_the_largest_server_is_evacuated_first(tries_all: bool) -> None:
    losses = Losses(cloud_of([1, 3], [1], [4]), tries_all=tries_all)
    found = losses.of_host("n0")
    assert found.servers == 2
    assert [each.server.uuid for each in found.left_over] == ["s00"]
    assert [(each.rule, each.hosts) for each in found.left_over[0].reasons] == [("lost", 1), ("Placement: VCPU", 2)]


def test_members_of_an_affinity_group_stay_with_their_host() -> None:
    group = GroupView("g", "affinity", 1, {"n0": 2})
    for tries_all in (False, True):
        found = Losses(cloud_of([1, 1], [], [], group=group), tries_all=tries_all).of_host("n0")
        assert [each.server.uuid for each in found.left_over] == ["s00", "s01"]
        assert "ServerGroupAffinityFilter" in {each.rule for each in found.left_over[0].reasons}


def test_the_loss_of_a_zone() -> None:
    (east, nova) = Losses(cloud_of([1], [2], [1], zone=2)).of_zones("nova")
    assert (east.zone, east.hosts, east.sets, east.survives) == ("east", 2, 1, True)
    assert (nova.zone, nova.hosts, nova.survives) == ("nova", 1, True)


def test_sets_that_were_not_tried_leave_the_verdict_open() -> None:
    cloud = cloud_of([2], [2], [2], [2], [1, 1, 1])
    (proved,) = Losses(cloud_of([1], [1], [1], [1])).of_any(1, "nova")
    assert (proved.survives, proved.proved, proved.tried) == (True, True, 0)
    (tried,) = Losses(cloud).of_any(2, "nova", most=2)
    assert (tried.sets, tried.tried, tried.survives) == (10, 2, None)
    (all_tried,) = Losses(cloud).of_any(2, "nova")
    assert (all_tried.tried, all_tried.survives) == (10, True)


def test_the_computation_can_be_stopped() -> None:
    def stop() -> None:
        raise TimeoutError

    with pytest.raises(TimeoutError):
        Losses(cloud_of([1], []), stop).of_host("n0")
