# SPDX-License-Identifier: Apache-2.0
"""Properties of the nearest miss: the change makes the request fit, it is minimal, and a fitting request has none."""

from dataclasses import replace

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tests.properties.strategies import NOW, Cloud, clouds, requests

from kilonova.cli.wiring.rules import build_engine
from kilonova.model.aggregate import Aggregate
from kilonova.model.flavor import Flavor
from kilonova.model.request_spec import RequestSpec
from kilonova.scheduler.explanations.changes import apply_changes
from kilonova.scheduler.explanations.explain import explain
from kilonova.scheduler.explanations.nearest_miss import nearest_misses
from kilonova.scheduler.explanations.request_changes import amount_change, request_changes
from kilonova.scheduler.resources import with_resources
from kilonova.scheduler.settings import SchedulerConfig
from support.samples import sampled
from support.strict_filters import STRICT_FILTERS

STRICT = build_engine(
    SchedulerConfig(
        enabled_filters=STRICT_FILTERS,
        isolated_images=("secret",),
        isolated_hosts=("node2",),
        limit_tenants_to_placement_aggregate=True,
        enable_isolated_aggregate_filtering=True,
    )
)

LAX = build_engine(SchedulerConfig())
TIGHT = build_engine(
    SchedulerConfig(
        enabled_filters=(
            "AggregateCoreFilter",
            "AggregateRamFilter",
            "AggregateDiskFilter",
            "ServerGroupAffinityFilter",
        )
    )
)
RATIOS = {f"{name}_allocation_ratio": ("0.25", "0.5", "1") for name in ("cpu", "ram", "disk")}


@settings(deadline=None, max_examples=30)
@given(cloud=clouds(), spec=requests)
def test_every_reported_change_is_enough_and_no_part_of_it_is_idle(cloud: Cloud, spec: RequestSpec) -> None:
    hosts = cloud.table()
    fits = STRICT.decide(hosts, with_resources(spec), limit=1).survivors > 0
    misses = nearest_misses(hosts, spec, STRICT, limit=3)
    assert not (fits and misses)
    for miss in misses:
        changed_hosts, changed_spec = apply_changes(hosts, spec, miss.changes)
        decision = STRICT.decide(changed_hosts, with_resources(changed_spec), limit=1)
        assert decision.ranked[0].host == miss.host
        assert decision.survivors == miss.fitting
        assert miss.hindrances
        for left_out in miss.changes:
            rest = apply_changes(hosts, spec, [each for each in miss.changes if each is not left_out])
            assert not STRICT.decide(rest[0], with_resources(rest[1]), limit=1).ranked


@settings(deadline=None, max_examples=30)
@given(cloud=clouds(), spec=requests)
def test_no_single_change_of_the_request_is_overlooked(cloud: Cloud, spec: RequestSpec) -> None:
    hosts = cloud.table()
    assume(not STRICT.decide(hosts, with_resources(spec), limit=1).survivors)
    enough = [
        change.size
        for change in request_changes(hosts, spec)
        for changed in (apply_changes(hosts, spec, [change]),)
        if STRICT.decide(changed[0], with_resources(changed[1]), limit=1).ranked
    ]
    misses = nearest_misses(hosts, spec, STRICT, limit=3)
    if enough:
        assert len(misses[0].changes) == 1
        assert misses[0].size <= min(enough)


@settings(deadline=None, max_examples=sampled(40, sample=20), suppress_health_check=[HealthCheck.filter_too_much])
@given(
    cloud=clouds(),
    ratios=st.fixed_dictionaries({name: st.sampled_from(values) for name, values in RATIOS.items()}),
    shape=st.fixed_dictionaries(
        {
            "vcpus": st.integers(1, 40),
            "memory_mib": st.sampled_from((512, 2_000, 9_000)),
            "root_gib": st.integers(0, 60),
        }
    ),
    pinned=st.booleans(),
)
def test_no_other_amount_is_overlooked(
    cloud: Cloud, ratios: dict[str, str], shape: dict[str, int], pinned: bool
) -> None:
    tight = Aggregate(99, "tight", "tight", tuple(each.host for each in cloud.records), ratios)
    hosts = replace(cloud, aggregates=(tight,)).table()
    specs = {"hw:cpu_policy": "dedicated"} if pinned else {}
    spec = RequestSpec(Flavor("1", "m1", **shape, extra_specs=specs))
    assume(not TIGHT.decide(hosts, with_resources(spec), limit=1).survivors)
    asked = {"VCPU": shape["vcpus"], "DISK_GB": shape["root_gib"]}
    others = [
        amount_change(name, old, new)
        for name, old in asked.items()
        for new in range(1 if name == "VCPU" else 0, 2 * old)
        if new != old
    ]
    enough = [
        change.size
        for change in others
        for changed in (apply_changes(hosts, spec, [change]),)
        if TIGHT.decide(changed[0], with_resources(changed[1]), limit=1).ranked
    ]
    assume(enough)
    (best, *_) = nearest_misses(hosts, spec, TIGHT)
    assert len(best.changes) == 1
    assert best.size <= min(enough)


@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.filter_too_much])
@given(cloud=clouds(), spec=requests, data=st.data())
def test_a_hindrance_that_is_alone_is_what_is_reported(cloud: Cloud, spec: RequestSpec, data: st.DataObject) -> None:
    """All hosts on which the request fits get the same single fault, which must be the reported one."""
    hosts = cloud.table()
    story = explain(hosts, with_resources(spec), LAX)
    fitting = [record for record, passes in zip(cloud.records, story.passed.tolist(), strict=True) if passes]
    assume(fitting)
    fault, kind = data.draw(st.sampled_from([("silent", "heartbeat"), ("forced", "forced down")]))
    broken = {"silent": {"last_seen": NOW - 600}, "forced": {"forced_down": True}}[fault]
    only = replace(cloud, records=tuple(replace(record, **broken) for record in fitting))
    table = only.table()
    if fault == "silent":
        assume(not any(record.forced_down or record.disabled for record in fitting))
    (best, *_) = nearest_misses(table, spec, LAX)
    assert [change.kind for change in best.changes] == [kind]
    assert [rule for rule, _ in best.hindrances] == ["ComputeFilter"]
