# SPDX-License-Identifier: Apache-2.0
"""Nova's legacy isolation mechanisms and their intent, which the audit compares with the hosts that are really allowed.

Each mechanism is meant to confine certain servers to certain hosts, and to reserve these hosts for these servers::

    flavors with aggregate_instance_extra_specs:K=V   aggregates with the metadata K=V
    images with a property that is a metadata key     aggregates with the property's value under this key
    projects                                          aggregates with the project in filter_tenant_id…
    flavors                                           aggregates with the flavor's name in instance_type
    servers that require the trait X                  aggregates with trait:X=required
    isolated images                                   isolated hosts

Most mechanisms either confine the servers or reserve the hosts, but not both. A disabled mechanism enforces nothing,
but its settings still express the intent.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

import numpy as np

from kilonova.model.aggregate import ZONE_KEY, Aggregate
from kilonova.model.image import Image
from kilonova.model.image_properties import image_property
from kilonova.model.request_spec import RequestSpec
from kilonova.records import dataclass
from kilonova.scheduler.aggregate_rules import split
from kilonova.scheduler.extra_specs import match
from kilonova.scheduler.filters.aggregate_instance_extra_specs import SCOPE
from kilonova.scheduler.filters.aggregate_type_affinity import KEY as TYPES_KEY
from kilonova.scheduler.host_table import BoolArray, HostTable
from kilonova.scheduler.isolation.universe import OfferedFlavor
from kilonova.scheduler.isolation_rules import is_rule_key
from kilonova.scheduler.request_filters.require_tenant_aggregate import TENANT_PREFIX
from kilonova.scheduler.resources import required_traits
from kilonova.scheduler.settings import SchedulerConfig

EXTRA_SPECS = "AggregateInstanceExtraSpecsFilter"
IMAGE_PROPERTIES = "AggregateImagePropertiesIsolation"
TENANCY = "AggregateMultiTenancyIsolation"
TYPES = "AggregateTypeAffinityFilter"
ISOLATED_HOSTS = "IsolatedHostsFilter"
TRAIT_PREFIX = "trait:"

_READ_BY_OTHERS = frozenset(
    {
        ZONE_KEY,
        TYPES_KEY,
        "cpu_allocation_ratio",
        "disk_allocation_ratio",
        "ram_allocation_ratio",
        "max_instances_per_host",
        "max_io_ops_per_host",
    }
)
_WEIGHT_SUFFIX = "_weight_multiplier"
#: Keys of aggregates and images whose values are descriptions for users, not conditions.
_FOR_PEOPLE = frozenset({"description"})


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """Hosts that a mechanism is meant to reserve for certain servers, which in turn are meant to use no other hosts.

    ``set_on``: the flavors, aggregates or hosts with the settings. ``hosts``: (H,) the hosts of the pool.
    ``is_stranger``: returns True for a server that must not use the pool. ``home``: returns (H,), all hosts that are
    meant for a server that is not a stranger.
    ``lets_in``: text of the finding if strangers can use the pool. ``lets_out``: text of the finding if other servers
    can use hosts outside their ``home``. ``remedy``: advice for the operator.
    """

    mechanism: str
    set_on: tuple[str, ...]
    aggregates: tuple[str, ...]
    hosts: BoolArray
    is_stranger: Callable[[RequestSpec], bool]
    home: Callable[[RequestSpec], BoolArray]
    lets_in: str
    lets_out: str
    remedy: str = "Set a kilonova:only rule on the aggregate."


@dataclass(frozen=True, slots=True)
class LegacyMechanism:
    """All pools of one mechanism. ``off``: text of the finding if it is disabled. ``switch``: how to enable it."""

    enabled: bool
    pools: tuple[Pool, ...]
    off: str
    switch: str


def legacy_mechanisms(
    hosts: HostTable, offered: Sequence[OfferedFlavor], images: Sequence[Image], config: SchedulerConfig
) -> tuple[LegacyMechanism, ...]:
    """Return all legacy mechanisms with their pools, including mechanisms that ``config`` does not enable."""
    enabled = {name.strip() for name in config.enabled_filters}

    def by_filter(name: str, off: str, pools: Iterable[Pool]) -> LegacyMechanism:
        return LegacyMechanism(
            name in enabled, tuple(pools), f"{off}, but {name} is not enabled", f"add {name} to enabled_filters"
        )

    limited = config.limit_tenants_to_placement_aggregate
    return (
        by_filter(EXTRA_SPECS, "Flavors ask for aggregates by extra specs", _by_extra_spec(hosts, offered)),
        by_filter(
            IMAGE_PROPERTIES,
            "Aggregates have image properties as metadata keys",
            _by_image_property(hosts, images, config, frozenset() if IMAGE_PROPERTIES in enabled else _FOR_PEOPLE),
        ),
        LegacyMechanism(
            TENANCY in enabled or limited,
            tuple(_by_project(hosts)),
            f"Aggregates name projects in {TENANT_PREFIX}, but neither is {TENANCY} enabled nor is"
            " limit_tenants_to_placement_aggregate on",
            f"add {TENANCY} to enabled_filters",
        ),
        by_filter(TYPES, f"Aggregates list flavors in {TYPES_KEY}", _by_type(hosts)),
        LegacyMechanism(
            config.enable_isolated_aggregate_filtering,
            tuple(_by_trait(hosts)),
            "Aggregates are reserved by traits, but enable_isolated_aggregate_filtering is off",
            "switch enable_isolated_aggregate_filtering on",
        ),
        by_filter(ISOLATED_HOSTS, "isolated_hosts or isolated_images are set", _isolated(hosts, config)),
    )


def _by_extra_spec(hosts: HostTable, offered: Sequence[OfferedFlavor]) -> Iterator[Pool]:
    """Yield the pools of flavor extra specs. A key without scope is skipped unless an aggregate has it as metadata."""
    known = {key for aggregate in hosts.aggregates.aggregates for key in aggregate.metadata if not _is_read(key)}
    asking: dict[tuple[str, str], list[str]] = {}
    for each in offered:
        for key, requirement in each.flavor.extra_specs.items():
            if key.startswith(f"{SCOPE}:") or (":" not in key and key in known):
                asking.setdefault((key.removeprefix(f"{SCOPE}:"), requirement), []).append(each.flavor.name)
    for (key, requirement), flavors in asking.items():
        found = _where(hosts, partial(_satisfies, key, requirement))
        yield Pool(
            f"{EXTRA_SPECS}, {key}={requirement}",
            tuple(flavors),
            found.aggregates,
            found.hosts,
            partial(_has_no_spec, key),
            partial(_home_by_spec, hosts, key),
            f"Hosts of aggregate {', '.join(found.aggregates)} are meant for flavors with {key}={requirement}, but"
            " servers of flavors without this extra spec may use these hosts.",
            f"Servers of flavors with {key} may also use hosts outside the aggregates that match this extra spec.",
        )


def _satisfies(key: str, requirement: str, aggregate: Aggregate) -> bool:
    return key in aggregate.metadata and any(match(value, requirement) for value in split(aggregate.metadata[key]))


def _has_no_spec(key: str, spec: RequestSpec) -> bool:
    return not {key, f"{SCOPE}:{key}"} & spec.flavor.extra_specs.keys()


def _home_by_spec(hosts: HostTable, key: str, spec: RequestSpec) -> BoolArray:
    home = hosts.all_hosts
    for name in {key, f"{SCOPE}:{key}"} & spec.flavor.extra_specs.keys():
        home = home & _meant(hosts, key, spec.flavor.extra_specs[name])
    return home


def _meant(hosts: HostTable, key: str, requirement: str) -> BoolArray:
    return hosts.memo.get(
        (_meant, key, requirement), lambda: _where(hosts, partial(_satisfies, key, requirement)).hosts
    )


def _by_image_property(
    hosts: HostTable, images: Sequence[Image], config: SchedulerConfig, ignored: frozenset[str]
) -> Iterator[Pool]:
    namespace = config.aggregate_image_properties_isolation_namespace
    prefix = f"{namespace}{config.aggregate_image_properties_isolation_separator}" if namespace else ""
    keys = {key for aggregate in hosts.aggregates.aggregates for key in aggregate.metadata if key.startswith(prefix)}
    for key in sorted(keys - ignored):
        if _is_read(key) or all(image_property(image, key) is None for image in images):
            continue
        found = _where(hosts, partial(_has_key, key))
        if found.hosts.any():
            yield Pool(
                f"{IMAGE_PROPERTIES}, {key}",
                tuple(f"{key} of aggregate {name}" for name in found.aggregates),
                found.aggregates,
                found.hosts,
                partial(_has_no_property, key),
                partial(_home_by_property, hosts, key),
                f"Hosts of aggregate {', '.join(found.aggregates)} are meant for images with the property {key}, but"
                " servers of images without this property may use these hosts.",
                f"Servers of images with the property {key} may also use hosts outside the aggregates with this key.",
            )


def _has_key(key: str, aggregate: Aggregate) -> bool:
    return key in aggregate.metadata


def _has_no_property(key: str, spec: RequestSpec) -> bool:
    return image_property(spec.image, key) is None


def _home_by_property(hosts: HostTable, key: str, spec: RequestSpec) -> BoolArray:
    value = image_property(spec.image, key)
    return hosts.memo.get(
        (_home_by_property, key, value),
        lambda: _where(hosts, lambda aggregate: value in split(aggregate.metadata.get(key, ""))).hosts,
    )


def _is_read(key: str) -> bool:
    """Tell whether a metadata key has a predefined meaning, and so does not refer to flavors or image properties."""
    return (
        key in _READ_BY_OTHERS
        or key.endswith(_WEIGHT_SUFFIX)
        or key.startswith((TENANT_PREFIX, TRAIT_PREFIX))
        or is_rule_key(key)
    )


def _by_project(hosts: HostTable) -> Iterator[Pool]:
    for projects in dict.fromkeys(map(_projects, hosts.aggregates.aggregates)):
        found = _where(hosts, partial(_names_just, projects))
        if projects and found.hosts.any():
            listed, there = ", ".join(sorted(projects)), f"hosts of aggregate {', '.join(found.aggregates)}"
            yield Pool(
                f"{TENANT_PREFIX}, {listed}",
                found.aggregates,
                found.aggregates,
                found.hosts,
                partial(_is_of_another_project, projects | _named_beside(hosts, found.hosts)),
                partial(_home_by_project, hosts, projects),
                f"The {there} are meant for project {listed}, but other projects may use these hosts.",
                f"Project {listed} is meant to use only {there}, but may use other hosts.",
            )


def _names_just(projects: frozenset[str], aggregate: Aggregate) -> bool:
    return _projects(aggregate) == projects


def _is_of_another_project(projects: frozenset[str], spec: RequestSpec) -> bool:
    return spec.project_id not in projects


def _named_beside(hosts: HostTable, pool: BoolArray) -> frozenset[str]:
    """Return the projects of all aggregates that share hosts with the pool; these projects may use shared hosts too."""
    beside = hosts.aggregates.membership[:, pool].any(axis=1)
    return frozenset().union(*(_projects(hosts.aggregates.aggregates[index]) for index in np.flatnonzero(beside)))


def _home_by_project(hosts: HostTable, projects: frozenset[str], spec: RequestSpec) -> BoolArray:
    """Return the hosts that are meant for the server's project, or all hosts if the pool does not name the project."""
    if spec.project_id not in projects:
        return hosts.all_hosts
    project = spec.project_id
    return hosts.memo.get(
        (_home_by_project, project), lambda: _where(hosts, lambda aggregate: project in _projects(aggregate)).hosts
    )


def _projects(aggregate: Aggregate) -> frozenset[str]:
    return frozenset(
        project
        for key, value in aggregate.metadata.items()
        if key.startswith(TENANT_PREFIX)
        for project in split(value)
    )


def _by_type(hosts: HostTable) -> Iterator[Pool]:
    """Yield one pool for all aggregates that list flavors: a host may be used by the flavors of all its aggregates."""
    found = _where(hosts, partial(_has_key, TYPES_KEY))
    listed = frozenset(
        name for each in hosts.aggregates.aggregates for name in split(each.metadata.get(TYPES_KEY, "")) if name
    )
    if found.hosts.any():
        there = f"hosts of aggregate {', '.join(found.aggregates)}"
        yield Pool(
            f"{TYPES}, {TYPES_KEY}",
            found.aggregates,
            found.aggregates,
            found.hosts,
            lambda spec: spec.flavor.name not in listed,
            partial(_home_by_type, hosts),
            f"The {there} are meant for the flavors in {TYPES_KEY}, but other flavors may use these hosts.",
            f"Flavors that {TYPES_KEY} lists may also use hosts outside the aggregates that list them.",
        )


def _home_by_type(hosts: HostTable, spec: RequestSpec) -> BoolArray:
    name = spec.flavor.name
    return hosts.memo.get(
        (_home_by_type, name),
        lambda: _where(hosts, lambda aggregate: name in split(aggregate.metadata.get(TYPES_KEY, ""))).hosts,
    )


def _by_trait(hosts: HostTable) -> Iterator[Pool]:
    for traits in dict.fromkeys(map(_reserved_for, hosts.aggregates.aggregates)):
        found = _where(hosts, partial(_is_reserved_for, traits))
        if traits and found.hosts.any():
            listed, there = ", ".join(sorted(traits)), f"hosts of aggregate {', '.join(found.aggregates)}"
            yield Pool(
                f"isolate_aggregates, {', '.join(f'{TRAIT_PREFIX}{trait}' for trait in sorted(traits))}",
                found.aggregates,
                found.aggregates,
                found.hosts,
                partial(_does_not_require, traits),
                partial(_home_by_trait, hosts),
                f"The {there} are meant for servers that require {listed}, but other servers may use these hosts.",
                f"Servers that require {listed} are meant to use only {there}, but may use other hosts.",
            )


def _reserved_for(aggregate: Aggregate) -> frozenset[str]:
    return frozenset(
        key.removeprefix(TRAIT_PREFIX)
        for key, value in aggregate.metadata.items()
        if key.startswith(TRAIT_PREFIX) and value == "required"
    )


def _is_reserved_for(traits: frozenset[str], aggregate: Aggregate) -> bool:
    return _reserved_for(aggregate) == traits


def _required(spec: RequestSpec) -> frozenset[str]:
    return required_traits(spec.flavor, spec.image)


def _does_not_require(traits: frozenset[str], spec: RequestSpec) -> bool:
    return not traits <= _required(spec)


def _home_by_trait(hosts: HostTable, spec: RequestSpec) -> BoolArray:
    """Return the hosts in aggregates that are reserved for traits of the server, and hosts that lack a required trait.

    The latter are included because the server cannot use them in any case.
    """
    required = _required(spec)
    reserving = _where(hosts, lambda aggregate: bool(traits := _reserved_for(aggregate)) and traits <= required).hosts
    able: BoolArray = np.logical_and.reduce([hosts.all_hosts, *map(hosts.has_trait, sorted(required))])
    return reserving | ~able


def _isolated(hosts: HostTable, config: SchedulerConfig) -> Iterator[Pool]:
    names = tuple(sorted({*config.isolated_hosts}))
    chosen = np.zeros(len(hosts), dtype=np.bool_)
    chosen[[row for name in names for row in hosts.rows_of_host().get(name, ())]] = True
    if names or config.isolated_images:
        yield Pool(
            f"{ISOLATED_HOSTS}, isolated_hosts",
            (*names, *config.isolated_images),
            (),
            chosen,
            lambda spec: spec.image is None or spec.image.id not in config.isolated_images,
            lambda _spec: chosen,
            "Isolated hosts are meant for isolated images, but servers of other images may use these hosts.",
            "Servers of isolated images are meant to use only isolated hosts, but may use other hosts.",
            "Switch restrict_isolated_hosts_to_isolated_images on, or set a kilonova:only rule on an aggregate of these"
            " hosts.",
        )


@dataclass(frozen=True, slots=True)
class _Found:
    aggregates: tuple[str, ...]
    hosts: BoolArray


def _where(hosts: HostTable, wanted: Callable[[Aggregate], bool]) -> _Found:
    chosen = np.array([wanted(each) for each in hosts.aggregates.aggregates], dtype=np.bool_)
    names = tuple(each.name for each, is_chosen in zip(hosts.aggregates.aggregates, chosen, strict=True) if is_chosen)
    return _Found(names, hosts.aggregates.hosts_in_any(chosen))
