# SPDX-License-Identifier: Apache-2.0
import pytest

from kilonova.model.flavor import Flavor
from kilonova.model.provider import Inventory
from kilonova.model.request_spec import RequestSpec
from kilonova.planning.stranded import Cause, stranded
from kilonova.scheduler.engine.engine import Engine
from kilonova.scheduler.host_records import HostRecord, build_host_table

INVENTORIES = (Inventory("VCPU", 4), Inventory("MEMORY_MB", 1000))
HOSTS = build_host_table(
    [
        HostRecord("full", INVENTORIES, used={"VCPU": 4, "MEMORY_MB": 100}),
        HostRecord("free", INVENTORIES),
        HostRecord("half", INVENTORIES, used={"VCPU": 1, "MEMORY_MB": 900}),
    ]
)
SMALL = RequestSpec(Flavor("1", "m1", 1, 500, 0))
LARGE = RequestSpec(Flavor("2", "m2", 8, 500, 0))


def test_causes_and_shares() -> None:
    vcpu, memory = stranded(HOSTS, [SMALL], Engine())
    assert (vcpu.capacity, vcpu.free, vcpu.stranded) == (12, 7, 3)
    assert vcpu.causes == (Cause("Placement: MEMORY_MB", 3, 1),)
    assert vcpu.share == 0.25
    assert memory.causes == (Cause("Placement: VCPU", 900, 1), Cause("Placement: MEMORY_MB", 100, 1))


def test_the_cause_is_the_rule_of_most_requests() -> None:
    vcpu, _ = stranded(HOSTS, [SMALL, LARGE, LARGE], Engine())
    assert vcpu.causes == (Cause("Placement: VCPU", 3, 1),)


def test_the_computation_can_be_stopped() -> None:
    def stop() -> None:
        raise TimeoutError

    with pytest.raises(TimeoutError):
        stranded(HOSTS, [SMALL], Engine(), check=stop)
