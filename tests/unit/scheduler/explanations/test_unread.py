# SPDX-License-Identifier: Apache-2.0
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from kilonova.cli.wiring.rules import build_engine
from kilonova.model.aggregate import Aggregate
from kilonova.model.flavor import Flavor
from kilonova.model.host import Capabilities
from kilonova.model.image import Image
from kilonova.scheduler.engine.engine import Engine
from kilonova.scheduler.explanations.unread import readers_of, unread, with_names_in_use
from kilonova.scheduler.filters import AggregateInstanceExtraSpecsFilter, BaseHostFilter
from kilonova.scheduler.host_records import HostRecord, build_host_table
from kilonova.scheduler.nova_compat.adapters import HostFilterAdapter
from kilonova.scheduler.plug_in_rules import PlugInFilter
from kilonova.scheduler.reads import NOTHING, Reads, names, reads_of
from kilonova.scheduler.settings import DEFAULT_FILTERS, SchedulerConfig

BOTH_OFF = "AggregateMultiTenancyIsolation is not enabled and limit_tenants_to_placement_aggregate is off"
TYPES_OFF = "AggregateTypeAffinityFilter is not enabled"
SCOPED = "aggregate_instance_extra_specs:ssd"
OF_AGGREGATES = (*DEFAULT_FILTERS, "AggregateInstanceExtraSpecsFilter", "AggregateImagePropertiesIsolation")


def told(
    *,
    filters: tuple[str, ...] = DEFAULT_FILTERS,
    specs: Mapping[str, str] | None = None,
    properties: Mapping[str, str] | None = None,
    metadata: Mapping[str, str] | None = None,
    hints: Mapping[str, tuple[str, ...]] | None = None,
    complete: bool = True,
    engine: Engine | None = None,
    driver: str | None = None,
    **options: Any,
) -> list[str]:
    """Return what is said about one flavor, image, aggregate and request in a cloud of them."""
    config = SchedulerConfig(enabled_filters=filters, **options)
    flavor = Flavor("1", "f", 1, 1, 1, extra_specs=specs or {})
    image = Image("i", "img", properties=properties or {})
    aggregate = Aggregate(1, "u", "a", ("n1",), metadata or {})
    hosts = build_host_table([HostRecord("n1", {}, capabilities=Capabilities(extra={"gpu": "a100"}))], [aggregate])
    readers = readers_of(engine or build_engine(config), config, hosts, driver=driver)
    readers = with_names_in_use(readers, hosts, [flavor], [image], complete=complete)
    found = unread(readers, flavors=[flavor], images=[image], aggregates=[aggregate], hints=hints)
    return [str(each) for each in found]


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ({"specs": {SCOPED: "true"}}, f"flavor f asks {SCOPED}; AggregateInstanceExtraSpecsFilter is not enabled"),
        ({"specs": {"ssd": "true"}}, "flavor f asks ssd; AggregateInstanceExtraSpecsFilter is not enabled"),
        ({"specs": {"made:up": "1"}}, "flavor f asks made:up; nothing reads it"),
        ({"specs": {"resources:NOSUCH": "1"}}, "flavor f asks resources:NOSUCH; nothing reads it"),
        ({"properties": {"db": "1"}}, "image img has db; nothing reads it"),
        ({"properties": {"hw_vif_modell": "e1000"}}, "image img has hw_vif_modell; nothing reads it"),
        (
            {"properties": {"hypervisor_type": "kvm"}, "filters": ("ComputeFilter",)},
            "image img has hypervisor_type; ImagePropertiesFilter is not enabled",
        ),
        ({"metadata": {"rack": "5"}}, "aggregate a has rack; nothing reads it"),
        ({"metadata": {"filter_tenant_id.x": "p"}}, f"aggregate a has filter_tenant_id.x; {BOTH_OFF}"),
        (
            {"metadata": {"trait:CUSTOM_A": "required"}},
            "aggregate a has trait:CUSTOM_A; enable_isolated_aggregate_filtering is off",
        ),
        ({"metadata": {"instance_type": "f"}}, f"aggregate a has instance_type; {TYPES_OFF}"),
        ({"hints": {"same_host": ("x",)}}, "the request gives the hint same_host; SameHostFilter is not enabled"),
        ({"hints": {"made_up": ("x",)}}, "the request gives the hint made_up; nothing reads it"),
    ],
)  # fmt: skip
def test_what_nobody_reads_is_named_with_the_rule_that_would(written: dict[str, Any], expected: str) -> None:
    assert told(**written) == [expected]


@pytest.mark.parametrize(
    "written",
    [
        {"specs": {"gpu": "a100", "capabilities:anything": "1", "free_ram_mb": ">= 5"}},
        {"specs": {"resources:VGPU": "1", "trait1:CUSTOM_A": "required", "group_policy": "none"}},
        {"specs": {"hw:numa_nodes": "1", "pci_passthrough:alias": "a:1", "accel:device_profile": "x"}},
        {"properties": {"hw_vif_model": "e1000", "architecture": "i386", "os_type": "linux", "trait:A": "required"}},
        {"properties": {"img_hv_type": "kvm", "img_hv_requested_version": ">=6.0"}},
        {"properties": {"owner_specified.x": "1", "description": "for people", "hw_numa_cpus.1": "0"}},
        {"metadata": {"availability_zone": "z", "ram_weight_multiplier": "2", "description": "for people"}},
        {"metadata": {"kilonova:only": "image.db and spec.a:b"}, "properties": {"db": "1"}, "specs": {"a:b": "1"}},
        {"hints": {"group": ("x",), "_nova_check_type": ("rebuild",)}},
        {"specs": {SCOPED: "true"}, "metadata": {"ssd": "true"}, "filters": OF_AGGREGATES},
        {"specs": {f"{SCOPED}:model": "x"}, "metadata": {"ssd:model": "x"}, "filters": OF_AGGREGATES},
        {"properties": {"db": "1"}, "metadata": {"db": "1"}, "filters": OF_AGGREGATES},
        {"properties": {"vm_mode": "hvm"}, "metadata": {"hw_vm_mode": "hvm"}, "filters": OF_AGGREGATES},
        {"metadata": {"trait:CUSTOM_A": "required"}, "enable_isolated_aggregate_filtering": True},
        {"properties": {"db": "1"}, "image_props_weight_multiplier": 1.0},
    ],
)  # fmt: skip
def test_what_somebody_reads_is_not_named(written: dict[str, Any]) -> None:
    assert told(**written) == []


def test_both_sides_of_a_filter_that_is_not_enabled_are_named() -> None:
    assert told(specs={SCOPED: "true"}, metadata={"ssd": "true"}) == [
        f"flavor f asks {SCOPED}; AggregateInstanceExtraSpecsFilter is not enabled",
        "aggregate a has ssd; AggregateInstanceExtraSpecsFilter is not enabled",
    ]
    assert told(properties={"db": "1"}, metadata={"db": "1"}) == [
        "image img has db; AggregateImagePropertiesIsolation is not enabled",
        "aggregate a has db; AggregateImagePropertiesIsolation is not enabled",
    ]


def test_what_is_there_on_one_side_only_is_named_when_the_whole_cloud_is_known() -> None:
    metadata = {"rack": "5"}
    assert told(metadata=metadata, filters=OF_AGGREGATES) == [
        "aggregate a has rack; nothing reads it: no flavor asks for it and no image has it"
    ]
    assert told(metadata=metadata, filters=OF_AGGREGATES, complete=False) == []
    assert told(properties={"db": "1"}, filters=OF_AGGREGATES) == [
        "image img has db; nothing reads it: no aggregate has it"
    ]


def test_the_namespace_of_image_properties_counts() -> None:
    options = {"filters": OF_AGGREGATES, "aggregate_image_properties_isolation_namespace": "os"}
    both = {"os.a": "1", "db": "1"}
    assert told(properties=both, metadata={"os.a": "1", "db": "1"}, **options) == [
        "image img has db; nothing reads it",
        "aggregate a has db; nothing reads it: no flavor asks for it",
    ]


@dataclass(frozen=True)
class Declaring:
    reads: ClassVar[Reads] = Reads(extra_specs=names("made:up"))
    reason: str = ""
    run_once: bool = True
    runs_on_rebuild: bool = False


class Silent(BaseHostFilter):
    pass


class Inheriting(AggregateInstanceExtraSpecsFilter):
    pass


@pytest.mark.parametrize(
    "silent", [HostFilterAdapter("Silent", Silent()), PlugInFilter("Silent", object()), Inheriting()]
)
def test_a_rule_that_declares_nothing_may_read_anything(silent: Any) -> None:
    assert reads_of(silent) is None
    assert told(specs={"made:up": "1", SCOPED: "1"}, hints={"x": ("1",)}, engine=Engine(filters=(silent,))) == []


def test_a_driver_from_outside_may_read_anything() -> None:
    assert told(specs={"made:up": "1"}, driver="IPScheduler") == []


def test_a_plug_in_that_declares_is_taken_at_its_word() -> None:
    for rule in (Declaring(), PlugInFilter("Declaring", Declaring())):
        engine = Engine(filters=(rule,))  # type: ignore[arg-type]
        assert told(specs={"made:up": "1"}, engine=engine) == []
        assert told(specs={"made:down": "1"}, engine=engine) == ["flavor f asks made:down; nothing reads it"]


def test_an_image_weigher_without_a_multiplier_reads_nothing() -> None:
    (weigher,) = (
        each for each in build_engine(SchedulerConfig()).weighers if type(each).__name__ == "ImagePropertiesWeigher"
    )
    assert reads_of(weigher) == NOTHING
