# SPDX-License-Identifier: Apache-2.0
"""Every vectorized weigher equals its reference definition for one host, written as plainly as the admin guide."""

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.properties.strategies import Cloud, clouds, requests

from kilonova.cli.wiring.rules import build_engine
from kilonova.model.request_spec import RequestSpec
from kilonova.scheduler.engine.ranking import shares
from kilonova.scheduler.host_records import HostRecord
from kilonova.scheduler.host_table import ALL_ROWS
from kilonova.scheduler.settings import SchedulerConfig
from kilonova.scheduler.weighers import WEIGHERS
from support.plain_multipliers import multiplier
from support.random_clouds import random_cloud, random_request

CONFIG = SchedulerConfig(
    num_instances_weight_multiplier=-0.5,
    image_props_weight_multiplier=1.5,
    image_cache_weight_multiplier=2.0,
    image_props_weight_setting=("os_distro=2.0", "hw_architecture=-0.5"),
    metrics_weight_setting=("cpu.percent=100.0", "power=0.5", "cpu.percent=0"),
    metrics_required=False,
)
RULES: dict[str, Any] = dict(zip(WEIGHERS, build_engine(CONFIG).weighers, strict=True))
Definition = Callable[[HostRecord, float, RequestSpec], float]


def free(name: str) -> Definition:
    def rate(host: HostRecord, _: float, __: RequestSpec) -> float:
        own = [each for each in host.inventories if each.resource_class == name]
        return sum(each.total - each.reserved for each in own) - host.used.get(name, 0)

    return rate


def cores(host: HostRecord, _: float, __: RequestSpec) -> float:
    (own,) = [each for each in host.inventories if each.resource_class == "VCPU"]
    return own.total * own.allocation_ratio - own.reserved - host.used["VCPU"]


def members(policy: str, sign: int) -> Definition:
    def rate(host: HostRecord, _: float, spec: RequestSpec) -> float:
        return sign * spec.group.hosts.get(host.host, 0) if spec.group and spec.group.policy == policy else 0

    return rate


def metrics(host: HostRecord, multiplier: float, _: RequestSpec) -> float:
    for name, ratio in (("cpu.percent", 100.0), ("power", 0.5)):
        if name not in host.metrics and multiplier * ratio:
            return -10000.0
    return host.metrics.get("cpu.percent", 0) * 100 + host.metrics.get("power", 0) * 0.5


def home(host: HostRecord, _: float, spec: RequestSpec) -> float:
    return 0 if spec.source_cell is None else 1 if host.cell_uuid == spec.source_cell else -1


def properties(host: HostRecord, _: float, spec: RequestSpec) -> float:
    asked = dict(spec.image.properties) if spec.image else {}
    asked |= {name: "x86_64" for name, value in asked.items() if value == "amd64"}
    rating = 0.0
    for guest in host.guests:
        has = dict(guest.image_properties)
        for name, ratio in (("os_distro", 2.0), ("hw_architecture", -0.5)):
            rating += ratio * (name in asked and has.get(name) == asked[name])
    return rating


DEFINITIONS: dict[str, tuple[Definition, float | None, str, float]] = {
    "RAMWeigher": (free("MEMORY_MB"), 0.0, "ram_weight_multiplier", 1.0),
    "CPUWeigher": (cores, 0.0, "cpu_weight_multiplier", 1.0),
    "DiskWeigher": (free("DISK_GB"), 0.0, "disk_weight_multiplier", 1.0),
    "IoOpsWeigher": (lambda host, *_: host.num_io_ops, 0.0, "io_ops_weight_multiplier", -1.0),
    "ServerGroupSoftAffinityWeigher": (members("soft-affinity", 1), None, "soft_affinity_weight_multiplier", 1.0),
    "ServerGroupSoftAntiAffinityWeigher": (
        members("soft-anti-affinity", -1),
        None,
        "soft_anti_affinity_weight_multiplier",
        1.0,
    ),
    "BuildFailureWeigher": (lambda host, *_: host.failed_builds, None, "build_failure_weight_multiplier", 1000000.0),
    "HypervisorVersionWeigher": (
        lambda host, *_: host.capabilities.hypervisor_version,
        None,
        "hypervisor_version_weight_multiplier",
        1.0,
    ),
    "NumInstancesWeigher": (lambda host, *_: host.num_instances, None, "num_instances_weight_multiplier", -0.5),
    "PCIWeigher": (
        lambda host, *_: 100 - min(sum(pool.free for pool in host.devices.pools), 99),
        None,
        "pci_weight_multiplier",
        1.0,
    ),
    "MetricsWeigher": (metrics, None, "metrics_weight_multiplier", 1.0),
    "CrossCellWeigher": (home, None, "cross_cell_move_weight_multiplier", 1000000.0),
    "ImagePropertiesWeigher": (properties, None, "image_props_weight_multiplier", 1.5),
    "ImageCacheWeigher": (
        lambda host, _factor, spec: float(spec.image is not None and f"image.{spec.image.id}" in host.metrics),
        None,
        "image_cache_weight_multiplier",
        2.0,
    ),
}


def defined(name: str, cloud: Cloud, spec: RequestSpec) -> list[float]:
    """Return the weigher's share of each host's score: rating, clamped, scaled to 0 … 1, times the multiplier."""
    rate, minimum, key, default = DEFINITIONS[name]
    factors = [multiplier(cloud.aggregates_of(host.host), key, default) for host in cloud.records]
    ratings = [rate(host, factor, spec) for host, factor in zip(cloud.records, factors, strict=True)]
    ratings = ratings if minimum is None else [max(rating, minimum) for rating in ratings]
    low, high = min(ratings) if minimum is None else minimum, max(ratings)
    sign = -1 if name == "BuildFailureWeigher" else 1
    if low == high:
        return [0.0] * len(ratings)
    return [sign * factor * (rating - low) / (high - low) for factor, rating in zip(factors, ratings, strict=True)]


def shared(name: str, cloud: Cloud, spec: RequestSpec) -> list[float]:
    (share,) = shares([RULES[name]], cloud.table(), spec, ALL_ROWS, len(cloud.records))
    return [0.0] * len(cloud.records) if share.values is None else share.values.tolist()


def test_every_weigher_has_a_definition() -> None:
    assert set(DEFINITIONS) == set(WEIGHERS)


@pytest.mark.parametrize("name", WEIGHERS)
def test_ten_thousand_hosts_and_requests(name: str) -> None:
    rng, told_apart = Random(name), 0
    for _ in range(40):
        cloud = random_cloud(rng)
        for _ in range(5):
            spec = random_request(rng)
            expected = defined(name, cloud, spec)
            assert shared(name, cloud, spec) == pytest.approx(expected, rel=1e-12, abs=1e-12)
            told_apart += len(set(expected)) > 1
    assert told_apart > 5


@settings(deadline=None, max_examples=50)
@given(cloud=clouds(), spec=requests, data=st.data())
def test_permuting_hosts_permutes_every_share(cloud: Cloud, spec: RequestSpec, data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(len(cloud.records))))
    shuffled = Cloud(tuple(cloud.records[row] for row in order), cloud.aggregates)
    for name in RULES:
        one = shared(name, cloud, spec)
        assert shared(name, shuffled, spec) == [one[row] for row in order], name


@settings(deadline=None, max_examples=50)
@given(cloud=clouds(), spec=requests, data=st.data())
def test_a_rating_ignores_all_other_hosts(cloud: Cloud, spec: RequestSpec, data: st.DataObject) -> None:
    hosts = cloud.table()
    chosen = np.array(sorted(data.draw(st.sets(st.integers(0, len(hosts) - 1), min_size=1))))
    for name, rule in RULES.items():
        everyone, some = rule.weigh(hosts, spec, ALL_ROWS), rule.weigh(hosts, spec, chosen)
        if some is not None and everyone is not None:
            assert some.tolist() == everyone[chosen].tolist(), name
        for row in chosen.tolist():
            alone = Cloud((cloud.records[row],), cloud.aggregates).table()
            rated = rule.weigh(alone, spec, ALL_ROWS)
            if rated is not None and everyone is not None:
                assert rated.tolist() == [everyone[row]], name


@settings(deadline=None, max_examples=50)
@given(cloud=clouds(), spec=requests)
def test_weighers_write_to_nothing(cloud: Cloud, spec: RequestSpec) -> None:
    hosts = cloud.table()
    columns = [getattr(hosts, field) for field in hosts.__slots__]
    for column in [*columns, *hosts.metrics.values()]:
        if isinstance(column, np.ndarray):
            column.setflags(write=False)
    for rule in RULES.values():
        rule.factors(hosts, ALL_ROWS)
        rule.weigh(hosts, spec, ALL_ROWS)
