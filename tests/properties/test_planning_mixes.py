# SPDX-License-Identifier: Apache-2.0
"""A mix, its places and stranded resources equal what full decisions give, one server and one host at a time."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kilonova.errors import InvalidRequest
from kilonova.model.flavor import Flavor
from kilonova.model.request_spec import RequestSpec
from kilonova.model.server_group import GroupView
from kilonova.planning.capacity import capacity
from kilonova.planning.cloud import Cloud
from kilonova.planning.hindrance import Hindrance
from kilonova.planning.mixes import Part, mix_capacity
from kilonova.planning.places import Place, aggregates, by_place, zones
from kilonova.planning.stranded import stranded
from kilonova.scheduler.decision import SURVIVED
from kilonova.scheduler.devices.choice import first_that_gives, needs_of
from kilonova.scheduler.guests import guest_of
from kilonova.scheduler.resources import with_resources
from support.planned_clouds import ALIASES, POLICIES, random_cloud, random_spec
from support.samples import sampled


def parts_of(chance: Random) -> list[Part]:
    """Return a mix whose requests are all of one project, and often of one server group."""
    group = None
    if chance.random() < 0.4:
        members = {f"node{number}": chance.randint(1, 2) for number in range(chance.randrange(3))}
        group = GroupView("group", chance.choice(POLICIES), chance.choice((1, 2, 3)), members)
    specs = [replace(random_spec(chance, []), group=group) for _ in range(chance.randint(1, 4))]
    return [Part(spec, chance.randint(1, 4)) for spec in specs]


def next_of(shares: Sequence[int], counts: Sequence[int]) -> int:
    due = sum(counts) + 1
    deficits = [Fraction(share * due, sum(shares)) - count for share, count in zip(shares, counts, strict=True)]
    return deficits.index(max(deficits))


def created_until_refused(cloud: Cloud, parts: Sequence[Part]) -> tuple[list[int], int, list[Hindrance], Counter[int]]:
    hosts, engine = cloud.hosts.with_own_use(), cloud.engine
    counts, placed = [0] * len(parts), Counter[int]()
    group = parts[0].spec.group
    while True:
        index = next_of([part.share for part in parts], counts)
        spec = with_resources(replace(parts[index].spec, group=group))
        decision = engine.decide(hosts, spec, limit=10)
        best, share = first_that_gives(decision, hosts, needs_of(spec, ALIASES))
        if best is None:
            reasons = [Hindrance(step.rule, step.reason, step.removed) for step in decision.steps if step.removed]
            return counts, index, reasons, placed
        hosts.count_server(best.row, engine.allocations(hosts, spec, best.row), guest_of(spec), share)
        hosts.num_io_ops[best.row] -= 1
        group = group and group.with_members(best.host)
        counts[index] += 1
        placed[best.row] += 1


@settings(deadline=None, max_examples=sampled(3000, sample=100))
@given(seed=st.integers(0, 2**32))
def test_a_mix_is_what_create_until_refused_gives(seed: int) -> None:
    chance = Random(seed)
    cloud, parts = random_cloud(seed, servers=(0, 10)), parts_of(chance)
    used = cloud.hosts.used.tobytes()
    try:
        counts, refused, reasons, placed = created_until_refused(cloud, parts)
    except InvalidRequest:
        with pytest.raises(InvalidRequest):
            mix_capacity(cloud.hosts, parts, cloud.engine, aliases=ALIASES)
        return
    found = mix_capacity(cloud.hosts, parts, cloud.engine, aliases=ALIASES)
    assert found.fits == tuple(counts)
    assert found.refused == refused
    assert [each for each in found.reasons if each.rule != "devices"] == reasons
    assert found.placed.tolist() == [placed[row] for row in range(len(cloud.hosts))]
    assert cloud.hosts.used.tobytes() == used, "the given table does not change"


def members_of(cloud: Cloud, place: Place) -> list[int]:
    """Return the rows of a place, from its name only."""
    hosts = cloud.hosts
    named = [each for each in hosts.aggregates.aggregates if each.name == place.name]
    if place.name is None:
        inside = {host for each in hosts.aggregates.aggregates for host in each.hosts}
        return [row for row, host in enumerate(hosts.hosts) if host not in inside]
    return [row for row, host in enumerate(hosts.hosts) if any(host in each.hosts for each in named)]


@settings(deadline=None, max_examples=sampled(1000, sample=50))
@given(seed=st.integers(0, 2**32))
def test_places_divide_the_answer(seed: int) -> None:
    cloud, spec = random_cloud(seed), random_spec(Random(seed), [])
    found = capacity(cloud.hosts, spec, cloud.engine, aliases=ALIASES)
    assert found.placed is not None
    assert found.last is not None
    assert found.placed.sum() == found.fits
    places = aggregates(cloud.hosts)
    for place, told in zip(places, by_place(places, found.placed, found.last), strict=True):
        rows = members_of(cloud, place)
        assert told.hosts == len(rows)
        assert told.fits == sum(int(found.placed[row]) for row in rows)
        expected = Counter(int(found.last.removed_by[row]) for row in rows)
        devices = expected.pop(SURVIVED, 0)
        assert [(each.rule, each.hosts) for each in told.reasons if each.rule != "devices"] == [
            (found.last.steps[number].rule, count) for number, count in sorted(expected.items())
        ]
        assert sum(each.hosts for each in told.reasons if each.rule == "devices") == devices
    by_zone = by_place(zones(cloud.hosts, "nova"), found.placed, found.last)
    assert sum(each.fits for each in by_zone) == found.fits
    assert sum(each.hosts for each in by_zone) == len(cloud.hosts)
    total = Counter[str]()
    for zone in by_zone:
        total.update({each.rule: each.hosts for each in zone.reasons})
    assert total == Counter({each.rule: each.hosts for each in found.reasons})


def takers(cloud: Cloud, row: int, specs: Sequence[RequestSpec]) -> dict[str, int]:
    """Return resource class → how many of the requests take it on a host, each decided for this host alone."""
    found = Counter[str]()
    for each in specs:
        spec = replace(with_resources(each), requested_host=cloud.hosts.hosts[row])
        decision = cloud.engine.decide(cloud.hosts, spec, limit=10)
        best, _ = first_that_gives(decision, cloud.hosts, needs_of(spec, ALIASES))
        if best is not None:
            found.update(cloud.engine.allocations(cloud.hosts, spec, best.row)[cloud.hosts.uuids[row]].keys())
    return dict(found)


@settings(deadline=None, max_examples=sampled(2000, sample=60))
@given(seed=st.integers(0, 2**32))
def test_stranded_is_what_no_request_takes(seed: int) -> None:
    chance = Random(seed)
    cloud = random_cloud(seed, servers=(5, 40))
    specs = [random_spec(chance, []) for _ in range(chance.randint(0, 4))]
    hosts = cloud.hosts
    try:
        usable = [takers(cloud, row, specs) for row in range(len(hosts))]
    except InvalidRequest:
        return
    found = {each.resource_class: each for each in stranded(hosts, specs, cloud.engine, aliases=ALIASES)}
    for column, name in enumerate(hosts.resource_classes):
        free = [max(0, int(hosts.capacity[row, column] - hosts.used[row, column])) for row in range(len(hosts))]
        lost = [amount for row, amount in enumerate(free) if amount and name not in usable[row]]
        assert found[name].capacity == hosts.capacity[:, column].sum()
        assert found[name].free == sum(free)
        assert found[name].stranded == sum(lost) == sum(each.amount for each in found[name].causes)
        assert sum(each.hosts for each in found[name].causes) == len(lost)


def test_resources_that_no_flavor_takes_are_stranded_without_a_rule() -> None:
    cloud = random_cloud(1)
    only_cpu = RequestSpec(Flavor("1", "m1", 1, 0, 0, extra_specs={"resources:MEMORY_MB": "0"}))
    by_class = {each.resource_class: each for each in stranded(cloud.hosts, [only_cpu], cloud.engine)}
    memory = by_class["MEMORY_MB"]
    assert [each.rule for each in memory.causes] == ["flavors"]
    assert memory.stranded == memory.free
    assert memory.share == memory.free / memory.capacity
