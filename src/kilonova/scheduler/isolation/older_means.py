# SPDX-License-Identifier: Apache-2.0
"""What operators mean by the older means of isolation, so that an audit can compare it with what these means do.

A flavor with ``aggregate_instance_extra_specs:K=V`` is meant for the aggregates with K=V, an image with a property that
aggregates have as a key for those with its value, a project in ``filter_tenant_id…`` for those that name it; and these
hosts are meant for nobody else. Each means keeps only one half of that.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from kilonova.model.aggregate import ZONE_KEY, Aggregate
from kilonova.model.image import Image
from kilonova.model.image_properties import image_property
from kilonova.model.request_spec import RequestSpec
from kilonova.scheduler.aggregate_rules import split
from kilonova.scheduler.extra_specs import match
from kilonova.scheduler.filters.aggregate_instance_extra_specs import SCOPE
from kilonova.scheduler.host_table import BoolArray, HostTable
from kilonova.scheduler.isolation.rules import Condition, is_rule_key
from kilonova.scheduler.isolation.universe import OfferedFlavor
from kilonova.scheduler.request_filters.require_tenant_aggregate import TENANT_PREFIX
from kilonova.scheduler.settings import SchedulerConfig

EXTRA_SPECS = "AggregateInstanceExtraSpecsFilter"
IMAGE_PROPERTIES = "AggregateImagePropertiesIsolation"
TENANCY = "AggregateMultiTenancyIsolation"


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """Hosts that are meant for some servers, and these servers for them.

    ``hosts``: (H,). ``is_stranger``: the hosts are not meant for such a server. ``home``: (H,), all hosts
    that are meant for a server that is no stranger. ``lets_in``, ``lets_out``: what to say when that does not hold.
    """

    means: str
    aggregates: tuple[str, ...]
    hosts: BoolArray
    is_stranger: Callable[[RequestSpec], bool]
    home: Callable[[RequestSpec], BoolArray]
    lets_in: str
    lets_out: str


def older_pools(
    hosts: HostTable, offered: Sequence[OfferedFlavor], images: Sequence[Image], config: SchedulerConfig
) -> tuple[Pool, ...]:
    """Return what is meant by the means that ``config`` switches on."""
    enabled = {name.strip() for name in config.enabled_filters}
    pools: list[Pool] = []
    if EXTRA_SPECS in enabled:
        pools += _by_extra_spec(hosts, offered)
    if IMAGE_PROPERTIES in enabled:
        pools += _by_image_property(hosts, images, config)
    if TENANCY in enabled or config.limit_tenants_to_placement_aggregate:
        pools += _by_project(hosts)
    return tuple(pools)


def without_effect(
    aggregates: Sequence[Aggregate],
    offered: Sequence[OfferedFlavor],
    conditions: Collection[Condition],
    config: SchedulerConfig,
) -> Iterator[tuple[str, str]]:
    """Yield what somebody has set for a means that is switched off, and what to do about it.

    ``conditions``: of isolation rules; extra specs that these ask for have their effect through them.
    """
    enabled = {name.strip() for name in config.enabled_filters}
    known = {condition.name for condition in conditions if condition.source == "spec"}
    asking = [
        each.flavor.name
        for each in offered
        if any(key.startswith(f"{SCOPE}:") and key not in known for key in each.flavor.extra_specs)
    ]
    if asking and EXTRA_SPECS not in enabled:
        what = f"Flavors ask for {SCOPE}, but {EXTRA_SPECS} is not enabled, so they may land anywhere"
        yield f"{what}: {', '.join(asking)}.", f"Set a kilonova:only rule, or add {EXTRA_SPECS} to enabled_filters."
    naming = [
        each.name
        for each in aggregates
        if any(key.startswith(TENANT_PREFIX) for key in each.metadata) and not any(map(is_rule_key, each.metadata))
    ]
    if naming and TENANCY not in enabled and not config.limit_tenants_to_placement_aggregate:
        what = (
            f"Aggregates name projects in {TENANT_PREFIX}, but neither is {TENANCY} enabled nor is"
            " limit_tenants_to_placement_aggregate on, so that keeps nobody in or out"
        )
        yield f"{what}: {', '.join(naming)}.", f"Set a kilonova:only rule, or add {TENANCY} to enabled_filters."


def _by_extra_spec(hosts: HostTable, offered: Sequence[OfferedFlavor]) -> Iterator[Pool]:
    asked = dict.fromkeys(
        (key.removeprefix(f"{SCOPE}:"), requirement)
        for each in offered
        for key, requirement in each.flavor.extra_specs.items()
        if ":" not in key or key.startswith(f"{SCOPE}:")
    )
    for key, requirement in asked:
        found = _where(hosts, partial(_satisfies, key, requirement))
        if found.hosts.any():
            yield Pool(
                f"{EXTRA_SPECS}, {key}={requirement}",
                found.aggregates,
                found.hosts,
                partial(_has_no_spec, key),
                partial(_anywhere, hosts),  # the filter itself keeps them there
                f"Hosts of aggregate {', '.join(found.aggregates)} are meant for flavors with {key}={requirement}, but"
                " flavors without that extra spec may land there.",
                "",
            )


def _satisfies(key: str, requirement: str, aggregate: Aggregate) -> bool:
    return key in aggregate.metadata and any(match(value, requirement) for value in split(aggregate.metadata[key]))


def _has_no_spec(key: str, spec: RequestSpec) -> bool:
    return not {key, f"{SCOPE}:{key}"} & spec.flavor.extra_specs.keys()


def _anywhere(hosts: HostTable, _spec: RequestSpec) -> BoolArray:
    return hosts.everyone


def _by_image_property(hosts: HostTable, images: Sequence[Image], config: SchedulerConfig) -> Iterator[Pool]:
    namespace = config.aggregate_image_properties_isolation_namespace
    prefix = f"{namespace}{config.aggregate_image_properties_isolation_separator}" if namespace else ""
    keys = {key for aggregate in hosts.aggregates.aggregates for key in aggregate.metadata if key.startswith(prefix)}
    for key in sorted(keys):
        if _is_for_something_else(key) or all(image_property(image, key) is None for image in images):
            continue
        found = _where(hosts, partial(_has_key, key))
        if found.hosts.any():
            yield Pool(
                f"{IMAGE_PROPERTIES}, {key}",
                found.aggregates,
                found.hosts,
                partial(_has_no_property, key),
                partial(_home_by_property, hosts, key),
                f"Hosts of aggregate {', '.join(found.aggregates)} are meant for images by their property {key}, but"
                " images without the property pass.",
                f"Images with the property {key} may also land on hosts of no aggregate that has it.",
            )


def _has_key(key: str, aggregate: Aggregate) -> bool:
    return key in aggregate.metadata


def _has_no_property(key: str, spec: RequestSpec) -> bool:
    return image_property(spec.image, key) is None


def _home_by_property(hosts: HostTable, key: str, spec: RequestSpec) -> BoolArray:
    value = image_property(spec.image, key)
    return _where(hosts, lambda aggregate: value in split(aggregate.metadata.get(key, ""))).hosts


def _is_for_something_else(key: str) -> bool:
    return key == ZONE_KEY or key.startswith(TENANT_PREFIX) or is_rule_key(key)


def _by_project(hosts: HostTable) -> Iterator[Pool]:
    for projects in dict.fromkeys(map(_projects, hosts.aggregates.aggregates)):
        found = _where(hosts, partial(_names_just, projects))
        if projects and found.hosts.any():
            listed, there = ", ".join(sorted(projects)), f"hosts of aggregate {', '.join(found.aggregates)}"
            yield Pool(
                f"{TENANT_PREFIX}, {listed}",
                found.aggregates,
                found.hosts,
                partial(_is_of_another_project, projects),
                partial(_home_by_project, hosts),
                f"The {there} are meant for project {listed}, but others may land there.",
                f"Project {listed} is meant for {there}, but may land elsewhere.",
            )


def _names_just(projects: frozenset[str], aggregate: Aggregate) -> bool:
    return _projects(aggregate) == projects


def _is_of_another_project(projects: frozenset[str], spec: RequestSpec) -> bool:
    return spec.project_id not in projects


def _home_by_project(hosts: HostTable, spec: RequestSpec) -> BoolArray:
    return _where(hosts, lambda aggregate: spec.project_id in _projects(aggregate)).hosts


def _projects(aggregate: Aggregate) -> frozenset[str]:
    return frozenset(
        project
        for key, value in aggregate.metadata.items()
        if key.startswith(TENANT_PREFIX)
        for project in split(value)
    )


@dataclass(frozen=True, slots=True)
class _Found:
    aggregates: tuple[str, ...]
    hosts: BoolArray


def _where(hosts: HostTable, wanted: Callable[[Aggregate], bool]) -> _Found:
    chosen = np.array([wanted(each) for each in hosts.aggregates.aggregates], dtype=np.bool_)
    names = tuple(each.name for each, is_chosen in zip(hosts.aggregates.aggregates, chosen, strict=True) if is_chosen)
    return _Found(names, hosts.aggregates.hosts_in_any(chosen))
