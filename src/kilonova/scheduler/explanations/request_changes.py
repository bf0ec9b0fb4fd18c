# SPDX-License-Identifier: Apache-2.0
"""Changes of a request that could make a host fit."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TypeVar

from kilonova.model.flavor import Flavor
from kilonova.model.request_spec import RequestSpec
from kilonova.scheduler.aggregate_rules import split
from kilonova.scheduler.explanations.changes import GIVE_UP, SWITCH, Change
from kilonova.scheduler.explanations.port_changes import port_changes
from kilonova.scheduler.filters.aggregate_instance_extra_specs import SCOPE as AGGREGATE_SCOPE
from kilonova.scheduler.filters.compute_capabilities import offered_values
from kilonova.scheduler.host_table import HostTable
from kilonova.scheduler.resources import PLACEMENT_KEY, with_resources

_MOST_VALUES = 8
_MIB_PER_GIB = 1024
_OF_TRIPLES: Mapping[str, int] = {"hw_architecture": 0, "img_hv_type": 1, "hw_vm_mode": 2}

#: Resource classes whose amounts are fields of a flavor. Pinned CPUs are changed as ``VCPU``, not as ``PCPU``.
_OF_FLAVORS = frozenset({"VCPU", "MEMORY_MB", "DISK_GB"})

V = TypeVar("V")


def request_changes(hosts: HostTable, spec: RequestSpec) -> Iterator[Change]:
    """Yield possible changes of the request, except changes of resource amounts.

    ``spec``: the original request, without its Placement query.
    """
    yield from _places(spec)
    yield from _zones(hosts, spec)
    yield from _hints(spec)
    yield from _traits(spec)
    yield from _resources_given_up(spec)
    yield from _extra_specs(hosts, spec)
    yield from _image_properties(hosts, spec)
    yield from port_changes(hosts, spec)


def _places(spec: RequestSpec) -> Iterator[Change]:
    for name in sorted(spec.ignore_hosts):
        text = f"do not exclude {name}"
        yield Change("ignored host", text, GIVE_UP, name, name, None, "ignored hosts", partial(_not_ignoring, name))
    if wanted := spec.requested_host or spec.requested_node:
        anywhere = partial(_with, requested_host=None, requested_node=None)
        yield Change("requested host", f"do not ask for the host {wanted}", GIVE_UP, wanted, wanted, None, "", anywhere)
    if forced := spec.force_host or spec.force_node:
        anywhere = partial(_with, force_host=None, force_node=None)
        yield Change("forced host", f"do not force the host {forced}", GIVE_UP, forced, forced, None, "", anywhere)


def _zones(hosts: HostTable, spec: RequestSpec) -> Iterator[Change]:
    asked = spec.availability_zone
    if not asked:
        return
    zones = {each.availability_zone for each in hosts.aggregates.aggregates} - {None, asked}
    for zone in sorted(filter(None, zones)):
        text, elsewhere = f"ask for zone {zone} instead of {asked}", partial(_with, availability_zone=zone)
        yield Change("zone", text, SWITCH, "availability_zone", asked, zone, "", elsewhere)
    text, anywhere = f"ask for no zone instead of {asked}", partial(_with, availability_zone=None)
    yield Change("zone", text, GIVE_UP, "availability_zone", asked, None, "", anywhere)


def _hints(spec: RequestSpec) -> Iterator[Change]:
    for name, values in spec.hints.items():
        if name != "group" and not name.startswith("_nova"):
            text, listed = f"drop the hint {name}", ", ".join(values)
            yield Change("hint", text, GIVE_UP, name, listed, None, "hints", partial(_without_hint, name))
    if (group := spec.group) is not None:
        text = f"drop the {group.policy} group {group.uuid}"
        yield Change("group", text, GIVE_UP, "group", group.uuid, None, "", _without_group)


def _traits(spec: RequestSpec) -> Iterator[Change]:
    required, forbidden = asked_traits(spec)
    for trait in sorted(required):
        text = f"do without the trait {trait}"
        yield Change("trait", text, GIVE_UP, trait, "required", None, "traits", partial(_without_trait, trait))
    for trait in sorted(forbidden - required):
        text = f"accept the trait {trait}"
        yield Change("trait", text, GIVE_UP, trait, "forbidden", None, "traits", partial(_without_trait, trait))


def asked_traits(spec: RequestSpec) -> tuple[frozenset[str], frozenset[str]]:
    """Return the (required, forbidden) traits of a request, merged over all request groups."""
    query = with_resources(spec).query
    return (
        (query.required | query.root_required).union(*(group.required for group in query.groups)),
        (query.forbidden | query.root_forbidden).union(*(group.forbidden for group in query.groups)),
    )


def _named_resources(flavor: Flavor, resource_class: str) -> list[str]:
    """Return the keys of the extra specs that request a resource class."""
    return [
        key
        for key in flavor.extra_specs
        if (found := PLACEMENT_KEY.fullmatch(key)) and found[1] == "resources" and found[3] == resource_class
    ]


def can_change(flavor: Flavor, resource_class: str) -> bool:
    """Tell whether a field or an extra spec of the flavor sets the amount of a resource class."""
    return resource_class in _OF_FLAVORS or bool(_named_resources(flavor, resource_class))


def _resources_given_up(spec: RequestSpec) -> Iterator[Change]:
    for name, amount in with_resources(spec).query.totals.items():
        if _named_resources(spec.flavor, name):
            yield amount_change(name, amount, 0)


def _extra_specs(hosts: HostTable, spec: RequestSpec) -> Iterator[Change]:
    for key, old in spec.flavor.extra_specs.items():
        if PLACEMENT_KEY.fullmatch(key):
            continue
        scope, _, rest = key.partition(":") if ":" in key else ("", "", key)
        values = _metadata_values(hosts, rest) if scope in {"", AGGREGATE_SCOPE} else ()
        for new in dict.fromkeys((*values, *offered_values(hosts, key)[:_MOST_VALUES])):
            if new != old:
                text, change = f"ask for {key}={new} instead of {old}", partial(_with_extra_spec, key, new)
                yield Change("extra spec", text, SWITCH, key, old, new, "extra specs", change)
        text, change = f"drop the extra spec {key}={old}", partial(_with_extra_spec, key, None)
        yield Change("extra spec", text, GIVE_UP, key, old, None, "extra specs", change)


def _image_properties(hosts: HostTable, spec: RequestSpec) -> Iterator[Change]:
    properties = spec.image.properties if spec.image is not None else {}
    for key, old in properties.items():
        if PLACEMENT_KEY.fullmatch(key):
            continue
        for new in dict.fromkeys((*_triple_values(hosts, key), *_metadata_values(hosts, key))):
            if new != old:
                text, change = f"use an image with {key}={new} instead of {old}", partial(_with_property, key, new)
                yield Change("image property", text, SWITCH, key, old, new, "image properties", change)
        text, change = f"use an image without {key}={old}", partial(_with_property, key, None)
        yield Change("image property", text, GIVE_UP, key, old, None, "image properties", change)


def _metadata_values(hosts: HostTable, key: str) -> tuple[str, ...]:
    found = [word for each in hosts.aggregates.aggregates if key in each.metadata for word in split(each.metadata[key])]
    return tuple(dict.fromkeys(found))[:_MOST_VALUES]


def _triple_values(hosts: HostTable, key: str) -> tuple[str, ...]:
    place = _OF_TRIPLES.get(key)
    if place is None:
        return ()
    found = [triple[place] for profile in hosts.profiles for triple in profile.supported_instances]
    return tuple(dict.fromkeys(found))[:_MOST_VALUES]


def _with(spec: RequestSpec, **changes: str | None) -> RequestSpec:
    return replace(spec, **changes)  # type: ignore[arg-type]


def _not_ignoring(name: str, spec: RequestSpec) -> RequestSpec:
    return replace(spec, ignore_hosts=spec.ignore_hosts - {name})


def _without_hint(name: str, spec: RequestSpec) -> RequestSpec:
    return replace(spec, hints=_without(spec.hints, name))


def _without_group(spec: RequestSpec) -> RequestSpec:
    return replace(spec, group=None, hints=_without(spec.hints, "group"))


def _without_trait(trait: str, spec: RequestSpec) -> RequestSpec:
    def kept(properties: Mapping[str, str]) -> dict[str, str]:
        return {
            key: value
            for key, value in properties.items()
            if not ((found := PLACEMENT_KEY.fullmatch(key)) and found[1] == "trait" and found[3] == trait)
        }

    query = replace(spec.query, required=spec.query.required - {trait}, forbidden=spec.query.forbidden - {trait})
    image = None if spec.image is None else replace(spec.image, properties=kept(spec.image.properties))
    flavor = replace(spec.flavor, extra_specs=kept(spec.flavor.extra_specs))
    return replace(spec, flavor=flavor, image=image, query=query)


def _with_extra_spec(key: str, value: str | None, spec: RequestSpec) -> RequestSpec:
    return replace(spec, flavor=replace(spec.flavor, extra_specs=_changed(spec.flavor.extra_specs, key, value)))


def _with_property(key: str, value: str | None, spec: RequestSpec) -> RequestSpec:
    if spec.image is None:
        return spec
    return replace(spec, image=replace(spec.image, properties=_changed(spec.image.properties, key, value)))


def _changed(properties: Mapping[str, str], key: str, value: str | None) -> dict[str, str]:
    return _without(properties, key) if value is None else {**properties, key: value}


def _without(mapping: Mapping[str, V], key: str) -> dict[str, V]:
    return {name: value for name, value in mapping.items() if name != key}


def amount_change(resource_class: str, old: int, new: int) -> Change:
    """Return the change of a requested amount from ``old`` to ``new``."""
    text = (
        f"ask for {new} {resource_class} instead of {old}" if new else f"ask for no {resource_class} instead of {old}"
    )
    change = partial(_with_amount, resource_class, new)
    return Change("resource", text, abs(new - old) / old, resource_class, old, new, "", change)


def _with_amount(resource_class: str, amount: int, spec: RequestSpec) -> RequestSpec:
    return replace(spec, flavor=with_amount(spec.flavor, resource_class, amount))


def with_amount(flavor: Flavor, resource_class: str, amount: int) -> Flavor:
    """Return the flavor with another amount of a resource class.

    The amount is set in the extra spec of the class, if the flavor has one, otherwise in the flavor's fields. A
    reduction of disk reduces the root disk first, then the ephemeral disk, then swap.
    """
    if named := _named_resources(flavor, resource_class):
        rest = {key: value for key, value in flavor.extra_specs.items() if key not in named}
        return replace(flavor, extra_specs={**rest, named[0]: str(amount)})
    if resource_class == "VCPU":
        return replace(flavor, vcpus=amount)
    if resource_class == "MEMORY_MB":
        return replace(flavor, memory_mib=amount)
    swap_gib = -(-flavor.swap_mib // _MIB_PER_GIB)
    surplus = flavor.root_gib + flavor.ephemeral_gib + swap_gib - amount
    root = max(flavor.root_gib - surplus, 0)
    surplus -= flavor.root_gib - root
    ephemeral = max(flavor.ephemeral_gib - surplus, 0)
    surplus -= flavor.ephemeral_gib - ephemeral
    swap = flavor.swap_mib if surplus <= 0 else (swap_gib - surplus) * _MIB_PER_GIB
    return replace(flavor, root_gib=root, ephemeral_gib=ephemeral, swap_mib=swap)
