# SPDX-License-Identifier: Apache-2.0
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest

from kilonova.cli.wiring.rules import build_engine
from kilonova.errors import RuleFailed
from kilonova.model.flavor import Flavor
from kilonova.model.provider import Inventory
from kilonova.model.request_spec import RequestSpec
from kilonova.planning.capacity import Capacity, capacity
from kilonova.planning.hindrance import Hindrance
from kilonova.scheduler.depends_on import DependsOn
from kilonova.scheduler.engine.engine import Engine
from kilonova.scheduler.host_records import HostRecord, build_host_table
from kilonova.scheduler.host_table import BoolArray, HostTable
from kilonova.scheduler.plug_in_rules import PlugInFilter
from kilonova.scheduler.settings import SchedulerConfig

SPEC = RequestSpec(Flavor("1", "m1", 2, 512, 0))
RULELESS = Engine()


def table(*vcpus: int, node: str = "") -> HostTable:
    records = [
        HostRecord(f"n{number}", (Inventory("VCPU", each), Inventory("MEMORY_MB", 10_000)), num_io_ops=7, node=node)
        for number, each in enumerate(vcpus)
    ]
    return build_host_table(records)


@dataclass(frozen=True)
class AtMostThree:
    """Plug-in filter whose verdict depends on the instances of the judged host."""

    depends_on: ClassVar[DependsOn] = DependsOn.ROWS

    def passes(self, hosts: HostTable, spec: RequestSpec) -> BoolArray:
        return hosts.guests.of_other_flavors("none") < 3 if spec.flavor.vcpus else hosts.all_hosts


class AtMostFiveInAll:
    """Plug-in filter that declares nothing: a server on one host changes its verdict on all hosts."""

    def passes(self, hosts: HostTable, spec: RequestSpec) -> BoolArray:
        return np.full(len(hosts), hosts.num_instances.sum() < 5 * spec.flavor.vcpus / 2)


class Broken:
    """Plug-in filter that fails when a host has two servers."""

    def passes(self, hosts: HostTable, spec: RequestSpec) -> BoolArray:
        if hosts.num_instances.max() >= spec.flavor.vcpus:
            raise ValueError
        return hosts.all_hosts


def with_filter(rule: object) -> Engine:
    return replace(RULELESS, filters=(PlugInFilter("Mine", rule),))


def test_the_first_scarce_resource_is_the_reason() -> None:
    found = capacity(table(9, 4, 1), SPEC, RULELESS)
    assert found == Capacity(6, (Hindrance("Placement: VCPU", "cannot give 2 VCPU", 3),))


def test_a_request_without_resources_has_no_limit() -> None:
    nothing = replace(
        SPEC, flavor=replace(SPEC.flavor, extra_specs={"resources:VCPU": "0", "resources:MEMORY_MB": "0"})
    )
    assert capacity(table(1), nothing, RULELESS) == Capacity(None, ())
    assert capacity(table(), nothing, RULELESS).fits == 0


def test_servers_are_active_before_the_next_is_created() -> None:
    engine = build_engine(SchedulerConfig(enabled_filters=("IoOpsFilter",), request_filters=()))
    engine = replace(engine, request_filters=())
    assert capacity(table(8), SPEC, engine).fits == 4
    assert capacity(table(8), SPEC, engine, one_by_one=True).fits == 4


@pytest.mark.parametrize(("rule", "fits"), [(AtMostThree(), 6), (AtMostFiveInAll(), 5)])
def test_rules_of_others_are_asked_for_every_server(rule: object, fits: int) -> None:
    found = capacity(table(20, 20), SPEC, with_filter(rule))
    assert found.fits == fits
    assert [each.rule for each in found.reasons] == ["Mine"]
    assert capacity(table(20, 20), SPEC, with_filter(rule), one_by_one=True) == found


def test_a_rule_that_fails_is_told() -> None:
    with pytest.raises(RuleFailed):
        capacity(table(20, 20), SPEC, with_filter(Broken()))


@pytest.mark.parametrize("rule", [AtMostThree(), AtMostFiveInAll()])
def test_the_computation_can_be_stopped(rule: object) -> None:
    def stop() -> None:
        raise TimeoutError

    with pytest.raises(TimeoutError):
        capacity(table(20, 20), SPEC, with_filter(rule), check=stop)


def test_the_table_does_not_change() -> None:
    hosts = table(8, 8)
    before = hosts.used.tolist(), hosts.num_instances.tolist(), hosts.num_io_ops.tolist()
    capacity(hosts, SPEC, with_filter(AtMostThree()))
    capacity(hosts, SPEC, RULELESS)
    assert (hosts.used.tolist(), hosts.num_instances.tolist(), hosts.num_io_ops.tolist()) == before
