# SPDX-License-Identifier: Apache-2.0
"""All possible kinds of servers, reduced to the combinations that isolating rules can distinguish.

Flavors, images and projects that no rule distinguishes are grouped. So a cloud with hundreds of flavors and thousands
of images has few combinations of groups, and a test of each combination covers all possible servers.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from kilonova.model.aggregate import Aggregate
from kilonova.model.flavor import Flavor
from kilonova.model.image import Image
from kilonova.model.image_properties import image_property
from kilonova.model.request_spec import RequestSpec
from kilonova.records import dataclass
from kilonova.scheduler.aggregate_rules import split
from kilonova.scheduler.engine.funnel import funnel
from kilonova.scheduler.filters import FILTERS
from kilonova.scheduler.filters.aggregate_instance_extra_specs import SCOPE
from kilonova.scheduler.filters.aggregate_type_affinity import KEY as TYPES_KEY
from kilonova.scheduler.guest_features import IMPLYING_PROPERTIES, IMPLYING_SPECS
from kilonova.scheduler.host_table import BoolArray, HostTable
from kilonova.scheduler.isolation_rules import Condition, Isolation
from kilonova.scheduler.request_filters import configured_request_filters
from kilonova.scheduler.request_filters.isolate_aggregates import IsolateAggregates
from kilonova.scheduler.request_filters.require_tenant_aggregate import TENANT_PREFIX, RequireTenantAggregate
from kilonova.scheduler.resources import flavor_traits, image_traits
from kilonova.scheduler.rule import Filter, RequestFilter
from kilonova.scheduler.settings import SchedulerConfig

#: Placeholder for all projects that no rule names.
ANY_OTHER_PROJECT = "*"
#: An image without properties, which any user can upload.
UNTAGGED = Image("", "(an image without properties)")
#: The filters that isolate servers. Their results do not depend on the usage of hosts.
ISOLATING = (
    "AggregateImagePropertiesIsolation",
    "AggregateInstanceExtraSpecsFilter",
    "AggregateMultiTenancyIsolation",
    "AggregateTypeAffinityFilter",
    "IsolatedHostsFilter",
)


@dataclass(frozen=True, slots=True)
class OfferedFlavor:
    """A flavor, and the projects that may use it. ``projects``: None for a public flavor.

    Administrators may use every flavor; the audit ignores this.
    """

    flavor: Flavor
    projects: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Combination:
    """All servers with one of ``flavors`` and one of ``images`` in ``project``; no rule can distinguish these servers.

    ``flavors``, ``images``: names. ``flavor``, ``image``: one representative flavor and one representative image.
    """

    flavors: tuple[str, ...]
    images: tuple[str, ...]
    project: str
    flavor: Flavor
    image: Image

    @property
    def spec(self) -> RequestSpec:
        return RequestSpec(self.flavor, self.image, project_id=self.project)


def combinations(
    aggregates: Sequence[Aggregate],
    isolation: Isolation | None,
    offered: Sequence[OfferedFlavor],
    images: Sequence[Image],
    config: SchedulerConfig,
) -> tuple[Combination, ...]:
    """Return all combinations of flavor, image and project. An image without properties is added to ``images``."""
    conditions = conditions_of(isolation)
    keys = frozenset(key for aggregate in aggregates for key in aggregate.metadata)
    named = _named_projects(aggregates, conditions)
    named_images = labels((*images, UNTAGGED))
    kinds_of_images: dict[Any, list[Image]] = {}
    for image in (*images, UNTAGGED):
        kinds_of_images.setdefault(_kind_of_image(image, keys, conditions, config), []).append(image)
    kinds_of_flavors: dict[Any, list[Flavor]] = {}
    for each in offered:
        projects = _projects_of(each, named)
        kind = (projects, _kind_of_flavor(each.flavor, aggregates, conditions))
        kinds_of_flavors.setdefault(kind, []).append(each.flavor)
    return tuple(
        Combination(
            flavors=tuple(flavor.name for flavor in flavors),
            images=tuple(named_images[image.id] for image in alike),
            project=project,
            flavor=flavors[0],
            image=alike[0],
        )
        for (projects, _), flavors in kinds_of_flavors.items()
        for alike in kinds_of_images.values()
        for project in sorted(projects)
    )


def labels(images: Sequence[Image]) -> dict[str, str]:
    """Return image id → label: the image's name, with the id appended if several images share the name.

    The label of an image without a name is its id.
    """
    shared = Counter(image.name for image in images)
    return {
        image.id: (image.name if shared[image.name] == 1 else f"{image.name} ({image.id})") if image.name else image.id
        for image in images
    }


def conditions_of(isolation: Isolation | None) -> frozenset[Condition]:
    """Return the conditions of all isolation rules."""
    if isolation is None:
        return frozenset()
    return frozenset(condition for rule in isolation.rules for each in rule.alternatives for condition in each)


def _named_projects(aggregates: Sequence[Aggregate], conditions: frozenset[Condition]) -> frozenset[str]:
    named = {str(condition.value) for condition in conditions if condition.source == "project"}
    for aggregate in aggregates:
        for key, value in aggregate.metadata.items():
            if key.startswith(TENANT_PREFIX):
                named |= {value, *split(value)}
    return frozenset(named - {""})


def _projects_of(offered: OfferedFlavor, named: frozenset[str]) -> frozenset[str]:
    if offered.projects is None:
        return named | {ANY_OTHER_PROJECT}
    others = {ANY_OTHER_PROJECT} if offered.projects - named or not offered.projects else set()
    return (offered.projects & named) | others


def _kind_of_image(
    image: Image, keys: frozenset[str], conditions: frozenset[Condition], config: SchedulerConfig
) -> tuple[Any, ...]:
    raw = sorted({condition.name for condition in conditions if condition.source == "image"})
    return (
        image.id if image.id in config.isolated_images else "",
        tuple((name, image.properties.get(name)) for name in raw),
        tuple((key, value) for key in sorted(keys) if (value := image_property(image, key)) is not None),
        image_traits(image),
        tuple((name, value) for name in IMPLYING_PROPERTIES if (value := image_property(image, name)) is not None),
    )


def _kind_of_flavor(
    flavor: Flavor, aggregates: Sequence[Aggregate], conditions: frozenset[Condition]
) -> tuple[Any, ...]:
    names = {condition.value for condition in conditions if condition.source == "flavor"}
    for aggregate in aggregates:
        names |= {*split(aggregate.metadata.get(TYPES_KEY, ""))}
    asked = {condition.name for condition in conditions if condition.source == "spec"}
    specs = tuple(
        (key, value)
        for key, value in sorted(flavor.extra_specs.items())
        if key in asked or ":" not in key or key.startswith(f"{SCOPE}:")
    )
    implied = tuple((key, flavor.extra_specs[key]) for key in IMPLYING_SPECS if key in flavor.extra_specs)
    return (flavor.name if flavor.name in names else "", specs, flavor_traits(flavor)[0], implied)


@dataclass(frozen=True, slots=True)
class Judge:
    """The enabled rules that isolate servers. Rules that depend on usage or on the service status are left out."""

    hosts: HostTable
    request_filters: tuple[RequestFilter, ...]
    filters: tuple[Filter, ...]

    @classmethod
    def of(cls, hosts: HostTable, config: SchedulerConfig) -> "Judge":
        """Build the judge from the isolating rules that ``config`` enables."""
        chosen = [name for name in map(str.strip, config.enabled_filters) if name in ISOLATING]
        made = [
            FILTERS[name].configured(config) if hasattr(FILTERS[name], "configured") else FILTERS[name]()
            for name in chosen
        ]
        switched_on = [
            each
            for each in configured_request_filters(config)
            if isinstance(each, RequireTenantAggregate | IsolateAggregates)
        ]
        return cls(hosts, tuple(switched_on), tuple(made))

    def may_use(self, combination: Combination) -> BoolArray:
        """Return the hosts that all isolating rules allow for a combination's servers. Shapes: → (H,)."""
        all_hosts = self.hosts.all_hosts
        masks = [
            step.mask
            for step in funnel(
                self.hosts, combination.spec, self.request_filters, self.filters, still_in=lambda: all_hosts
            )
        ]
        passed: BoolArray = np.logical_and.reduce([all_hosts, *masks])
        return passed


@dataclass(frozen=True, slots=True)
class Group:
    """A set of servers in an audit report: all that have one of these flavors, images and projects."""

    flavors: tuple[str, ...]
    images: tuple[str, ...]
    projects: tuple[str, ...]


def grouped(found: Sequence[Combination]) -> tuple[Group, ...]:
    """Merge combinations into fewer groups that cover exactly the same servers."""
    groups = [Group(each.flavors, each.images, (each.project,)) for each in found]
    for field in ("projects", "images", "flavors"):
        groups = list(_merged(groups, field))
    return tuple(groups)


def _merged(groups: Sequence[Group], field: str) -> Iterator[Group]:
    """Merge groups that differ only in the field named ``field``."""
    alike: dict[Any, list[Group]] = {}
    others = [name for name in Group.__slots__ if name != field]
    for group in groups:
        alike.setdefault(tuple(getattr(group, name) for name in others), []).append(group)
    for same in alike.values():
        joined: Mapping[str, Any] = {field: tuple(sorted({value for group in same for value in getattr(group, field)}))}
        yield replace(same[0], **joined)
