# SPDX-License-Identifier: Apache-2.0
"""Properties of whole decisions."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.properties.strategies import Cloud, clouds, requests

from kilonova.cli.wiring.rules import build_engine
from kilonova.model.request_spec import RequestSpec
from kilonova.scheduler.decision import SURVIVED
from kilonova.scheduler.engine.batch import Batch
from kilonova.scheduler.engine.engine import Engine
from kilonova.scheduler.explanations.explain import explain
from kilonova.scheduler.guests import guest_of
from kilonova.scheduler.resources import with_resources
from kilonova.scheduler.settings import SchedulerConfig
from support.plain_multipliers import multiplier
from support.samples import sampled

MILD = ("AggregateMultiTenancyIsolation", "IoOpsFilter", "AggregateNumInstancesFilter", "ServerGroupAntiAffinityFilter")
ENGINE = build_engine(
    SchedulerConfig(
        enabled_filters=MILD, num_instances_weight_multiplier=-0.5, limit_tenants_to_placement_aggregate=True
    )
)
CHANCE = build_engine(SchedulerConfig(enabled_filters=MILD, host_subset_size=3, shuffle_best_same_weighed_hosts=True))

#: Engine with query and legacy filters, and with weighers of image properties and metrics.
ASKS = build_engine(
    SchedulerConfig(
        enabled_filters=("AggregateCoreFilter", "RamFilter", "JsonFilter", "RetryFilter", "TypeAffinityFilter"),
        image_props_weight_multiplier=-3.0,
        metrics_weight_setting=("cpu.percent=1.0",),
        metrics_required=False,
    )
)


def plain_scores(cloud: Cloud, names: list[str], spec: RequestSpec) -> dict[str, float]:
    """Return the scores of the hosts, computed one by one as Nova's admin guide describes them."""
    hosts = [host for host in cloud.records if host.host in names]
    if len(hosts) < 2:
        return dict.fromkeys(names, 0.0)

    def free(host: object, index: int) -> float:
        inventory = host.inventories[index]
        return inventory.total - inventory.reserved - host.used.get(inventory.resource_class, 0)

    def members(host: object, policy: str) -> float:
        return spec.group.hosts.get(host.host, 0) if spec.group and spec.group.policy == policy else 0

    def at_home(host: object) -> float:
        return 0 if spec.source_cell is None else 1 if host.cell_uuid == spec.source_cell else -1

    raw = {
        ("ram", 1.0, 0.0): [free(host, 1) for host in hosts],
        ("cpu", 1.0, 0.0): [
            cpus.total * cpus.allocation_ratio - cpus.reserved - host.used["VCPU"]
            for host in hosts
            for cpus in host.inventories[:1]
        ],
        ("disk", 1.0, 0.0): [free(host, 2) if len(host.inventories) > 2 else 0 for host in hosts],
        ("io_ops", -1.0, 0.0): [host.num_io_ops for host in hosts],
        ("pci", 1.0, None): [100 - min(sum(pool.free for pool in host.devices.pools), 99) for host in hosts],
        ("soft_affinity", 1.0, None): [members(host, "soft-affinity") for host in hosts],
        ("soft_anti_affinity", 1.0, None): [-members(host, "soft-anti-affinity") for host in hosts],
        ("build_failure", 1000000.0, None): [host.failed_builds for host in hosts],
        ("hypervisor_version", 1.0, None): [host.capabilities.hypervisor_version for host in hosts],
        ("cross_cell_move", 1000000.0, None): [at_home(host) for host in hosts],
        ("num_instances", -0.5, None): [host.num_instances for host in hosts],
    }
    scores = dict.fromkeys((host.host for host in hosts), 0.0)
    for (name, default, minimum), ratings in raw.items():
        clamped = ratings if minimum is None else [max(rating, minimum) for rating in ratings]
        low = min(clamped) if minimum is None else minimum
        high = max(clamped)
        for host, rating in zip(hosts, clamped, strict=True):
            factor = multiplier(cloud.aggregates_of(host.host), f"{name}_weight_multiplier", default)
            sign = -1 if name == "build_failure" else 1
            scores[host.host] += sign * factor * ((rating - low) / (high - low) if high > low else 0.0)
    return scores


@settings(deadline=None)
@given(cloud=clouds(), spec=requests)
def test_scores_are_those_of_the_plain_definition(cloud: Cloud, spec: RequestSpec) -> None:
    decision = ENGINE.decide(cloud.table(), with_resources(spec), limit=100)
    expected = plain_scores(cloud, [ranked.host for ranked in decision.ranked], spec)
    for ranked in decision.ranked:
        assert ranked.score == pytest.approx(expected[ranked.host], abs=1e-6)
        assert ranked.score == pytest.approx(sum(ranked.weights.values()))


@settings(deadline=None)
@given(cloud=clouds(), spec=requests, data=st.data())
def test_permuting_hosts_permutes_the_result(cloud: Cloud, spec: RequestSpec, data: st.DataObject) -> None:
    spec = with_resources(spec)
    shuffled = replace(cloud, records=tuple(data.draw(st.permutations(cloud.records))))
    one, other = ENGINE.decide(cloud.table(), spec, limit=100), ENGINE.decide(shuffled.table(), spec, limit=100)
    assert one.rejected == other.rejected
    assert one.steps == other.steps
    assert {ranked.host: ranked.score for ranked in one.ranked} == pytest.approx(
        {ranked.host: ranked.score for ranked in other.ranked}
    )
    lost = {host.host: int(index) for host, index in zip(cloud.records, one.removed_by, strict=True)}
    assert lost == {host.host: int(index) for host, index in zip(shuffled.records, other.removed_by, strict=True)}


@settings(deadline=None)
@given(cloud=clouds(), spec=requests, seed=st.integers(0, 2**32), limit=st.integers(0, 9))
def test_equal_inputs_and_seed_give_an_equal_decision_to_the_bit(
    cloud: Cloud, spec: RequestSpec, seed: int, limit: int
) -> None:
    spec = with_resources(spec)
    hosts = cloud.table()
    one, other, fresh = (
        CHANCE.decide(which, spec, limit=limit, rng=np.random.default_rng(seed))
        for which in (hosts, hosts, cloud.table())
    )
    assert one.ranked == other.ranked == fresh.ranked
    assert one.steps == other.steps == fresh.steps
    assert one.removed_by.tobytes() == other.removed_by.tobytes() == fresh.removed_by.tobytes()


@settings(deadline=None)
@given(cloud=clouds(), spec=requests, limit=st.integers(0, 9))
def test_the_funnel_adds_up(cloud: Cloud, spec: RequestSpec, limit: int) -> None:
    hosts = cloud.table()
    decision = ENGINE.decide(hosts, with_resources(spec), limit=limit)
    assert sum(step.removed for step in decision.steps) + decision.survivors == len(hosts)
    for index, step in enumerate(decision.steps):
        assert step.removed == np.count_nonzero(decision.removed_by == index)
    assert np.count_nonzero(decision.removed_by == SURVIVED) == decision.survivors
    assert len(decision.ranked) == min(limit, decision.survivors)
    scores = [ranked.score for ranked in decision.ranked]
    assert scores == sorted(scores, reverse=True)
    assert decision.ranked == ENGINE.decide(hosts, with_resources(spec), limit=100).ranked[:limit]


@settings(deadline=None)
@given(cloud=clouds(), spec=requests)
def test_an_explanation_agrees_with_the_decision(cloud: Cloud, spec: RequestSpec) -> None:
    hosts, spec = cloud.table(), with_resources(spec)
    decision, story = ENGINE.decide(hosts, spec, limit=1), explain(hosts, spec, ENGINE)
    assert story.passed.tolist() == (decision.removed_by == SURVIVED).tolist()
    for row in range(len(hosts)):
        reasons = story.reasons(row)
        if story.passed[row]:
            assert reasons == ()
        else:
            assert decision.steps[decision.removed_by[row]].rule == reasons[0][0]


@settings(deadline=None)
@given(cloud=clouds(), spec=requests)
def test_room_is_what_placement_says_it_is(cloud: Cloud, spec: RequestSpec) -> None:
    spec = with_resources(spec)
    assume(spec.query.fallback is None)  # with a fallback, pinned CPUs may come from either of two classes
    verdicts = {verdict.rule: verdict.passes for verdict in explain(cloud.table(), spec, ENGINE).verdicts}
    for name, amount in spec.query.resources.items():
        expected = []
        for record in cloud.records:
            have = {inventory.resource_class: inventory for inventory in record.inventories}.get(name)
            expected.append(
                have is not None
                and record.used.get(name, 0) + amount <= have.capacity
                and have.min_unit <= amount <= have.max_unit
                and amount % have.step_size == 0
            )
        assert verdicts[f"Placement: {name}"].tolist() == expected


@settings(deadline=None, max_examples=sampled(200, sample=60))
@given(cloud=clouds(), spec=requests, seed=st.integers(0, 2**32), engine=st.sampled_from((ENGINE, CHANCE, ASKS)))
def test_a_batch_decides_as_one_whole_decision_a_server_would(
    cloud: Cloud, spec: RequestSpec, seed: int, engine: Engine
) -> None:
    spec = with_resources(replace(spec, instance_uuids=("i0", "i1", "i2")))
    rngs = [np.random.default_rng(seed) for _ in range(2)]
    batch = Batch(engine, cloud.table(), spec, limit=4, rng=rngs[0])
    hosts = cloud.table()
    left = np.ones(len(hosts), dtype=np.bool_)
    for _ in range(12):
        whole = engine.decide(hosts, spec, limit=4, rng=rngs[1])
        later = batch.decide()
        assert later.ranked == whole.ranked
        assert later.survivors == whole.survivors
        assert ((later.removed_by == SURVIVED) == (whole.removed_by == SURVIVED)).all()
        assert sum(step.removed for step in later.steps) + later.survivors == len(hosts)
        lost = later.removed_by[left & (later.removed_by != SURVIVED)]
        assert not left.all() or len(lost) == len(hosts) - later.survivors
        left = later.removed_by == SURVIVED
        if not whole.ranked:
            return
        row = whole.ranked[0].row
        batch.place(row)
        hosts.count_server(row, {hosts.uuids[row]: spec.query.resources}, guest_of(spec))
        if spec.group is not None:
            spec = replace(spec, group=spec.group.with_members(hosts.hosts[row]))
        assert batch.spec == spec
