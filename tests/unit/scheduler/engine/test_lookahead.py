# SPDX-License-Identifier: Apache-2.0
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from tests.unit.scheduler.small_cloud import host, request, table

from kilonova.errors import RuleFailed
from kilonova.model.provider import Inventory
from kilonova.model.request_spec import RequestSpec
from kilonova.model.server_group import GroupView
from kilonova.scheduler.engine.batch import Batch
from kilonova.scheduler.engine.engine import Engine
from kilonova.scheduler.filters import NumInstancesFilter
from kilonova.scheduler.filters.server_group_anti_affinity import ServerGroupAntiAffinityFilter
from kilonova.scheduler.guests import guest_of
from kilonova.scheduler.host_table import FloatArray, HostTable, Rows
from kilonova.scheduler.resources import with_resources
from kilonova.scheduler.weighers import CPUWeigher, IoOpsWeigher, RAMWeigher, ServerGroupSoftAntiAffinityWeigher

SERVERS = 150


@dataclass(frozen=True)
class CountingWeigher(RAMWeigher):
    """Rates by free memory and notes of how many hosts it was asked each time."""

    asked: list[int] = field(default_factory=list)

    def weigh(self, hosts: HostTable, spec: RequestSpec, rows: Rows) -> FloatArray:
        ratings = super().weigh(hosts, spec, rows)
        self.asked.append(len(ratings))
        return ratings


def cloud() -> HostTable:
    """Return forty hosts of four sizes."""
    return table(*(host(f"host{row}", inventories=_inventories(8 + 8 * (row % 4))) for row in range(40)))


def _inventories(size: int) -> tuple[Inventory, ...]:
    return Inventory("VCPU", size, allocation_ratio=4.0), Inventory("MEMORY_MB", 1_024 * size), Inventory("DISK_GB", 99)


@pytest.mark.parametrize("multiplier", [1.0, -1.0], ids=["spread", "stacked"])
@pytest.mark.parametrize("policy", [None, "anti-affinity", "soft-anti-affinity"])
def test_what_was_foreseen_is_what_comes(multiplier: float, policy: str | None) -> None:
    engine = Engine(
        (),
        (NumInstancesFilter(max_instances_per_host=7), ServerGroupAntiAffinityFilter()),
        (RAMWeigher(multiplier), CPUWeigher(multiplier), IoOpsWeigher(), ServerGroupSoftAntiAffinityWeigher()),
    )
    spec = with_resources(request())
    if policy is not None:
        spec = replace(spec, group=GroupView("group", policy, 2, {}))
    hosts = cloud()
    batch = Batch(engine, cloud(), spec, limit=3)
    for _ in range(SERVERS):
        whole, later = engine.decide(hosts, spec, limit=3), batch.decide()
        assert later.ranked == whole.ranked
        if not whole.ranked:
            return
        row = whole.ranked[0].row
        batch.place(row)
        hosts.count_server(row, {hosts.uuids[row]: spec.query.totals}, guest_of(spec))
        if spec.group is not None:
            spec = replace(spec, group=spec.group.with_members(hosts.hosts[row]))


@pytest.mark.parametrize("multiplier", [1.0, -1.0], ids=["spread", "stacked"])
def test_rules_are_asked_seldom_and_about_many_hosts(multiplier: float) -> None:
    weigher = CountingWeigher(multiplier)
    batch = Batch(Engine((), (), (weigher,)), cloud(), with_resources(request()), limit=1)
    for _ in range(SERVERS):
        batch.place(batch.decide().ranked[0].row)
    assert len(weigher.asked) < SERVERS / 4
    assert max(weigher.asked[2:]) > 1


def test_a_rule_that_breaks_on_a_host_that_nobody_gets_breaks_no_request() -> None:
    class Fragile(RAMWeigher):
        def weigh(self, hosts: HostTable, spec: RequestSpec, rows: Rows) -> FloatArray:
            if "fragile" in np.array(hosts.hosts)[hosts.num_instances > 0]:
                raise RuntimeError("asked about a server on it")
            return super().weigh(hosts, spec, rows)

    hosts = table(host("a"), host("fragile", inventories=_inventories(1)), host("b"))
    batch = Batch(Engine((), (), (Fragile(),)), hosts, with_resources(request()), limit=1)
    chosen = []
    for _ in range(6):
        best = batch.decide().ranked[0]
        batch.place(best.row)
        chosen.append(best.host)
    assert sorted(set(chosen)) == ["a", "b"]
    batch.place(1)
    with pytest.raises(RuleFailed, match="Fragile"):
        batch.decide()
