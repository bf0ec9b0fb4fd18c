# SPDX-License-Identifier: Apache-2.0
"""What could be done about a host that does not fit: changes of the request, and changes of hosts, as values.

A change is small and concrete enough to be applied: to a request, or to rows of a table. Its size is relative, so that
changes of all kinds can be compared: an amount by which share of what was asked it changes; 1 for switching something
(another value, a trait more, a service enabled); 2 for giving a condition up; n for n servers that leave a host.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import numpy as np

from kilonova.model.aggregate import Aggregate
from kilonova.model.flavor import Flavor
from kilonova.model.request_spec import RequestSpec
from kilonova.scheduler.aggregate_rules import split
from kilonova.scheduler.extra_specs import OPERATORS
from kilonova.scheduler.filters.aggregate_instance_extra_specs import SCOPE as AGGREGATE_SCOPE
from kilonova.scheduler.filters.aggregate_type_affinity import KEY as FLAVORS_KEY
from kilonova.scheduler.filters.compute_capabilities import offered_values
from kilonova.scheduler.host_table import BoolArray, HostTable, Memo
from kilonova.scheduler.isolation.rules import compile_isolation
from kilonova.scheduler.request_filters import DISABLED_TRAIT
from kilonova.scheduler.request_filters.require_tenant_aggregate import TENANT_PREFIX
from kilonova.scheduler.resources import PLACEMENT_KEY, with_resources

SWITCH = 1.0
GIVE_UP = 2.0
#: Families whose changes are made to every hypervisor of a service host.
OF_SERVICE_HOST = frozenset({"service", "aggregates"})
_MOST_VALUES = 8
_MOST_AGGREGATES = 64
_MIB_PER_GIB = 1024
_OF_TRIPLES: Mapping[str, int] = {"hw_architecture": 0, "img_hv_type": 1, "hw_vm_mode": 2}

#: Resources that flavors have figures of their own for; pinned CPUs are PCPU.
_OF_FLAVORS = frozenset({"VCPU", "PCPU", "MEMORY_MB", "DISK_GB"})

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Change:
    """One change of the request, or of a host (``on_hosts``; ``host`` and ``node`` say of which, None is any).

    ``kind`` and ``name`` say what changes, ``old`` and ``new`` from what to what; None is "not there".
    ``family``: changes of one family may have to be made together before a rule is content.
    """

    kind: str
    text: str
    size: float
    name: str = ""
    old: str | int | None = None
    new: str | int | None = None
    family: str = ""
    on_request: Callable[[RequestSpec], RequestSpec] | None = None
    on_hosts: Callable[[HostTable, BoolArray], HostTable] | None = None
    host: str | None = None
    node: str | None = None

    def apply(self, hosts: HostTable, spec: RequestSpec, rows: BoolArray) -> tuple[HostTable, RequestSpec]:
        """Return table and request with the change made; ``rows`` are the hosts that it is made to. Shapes: (H,)."""
        if self.on_request is not None:
            spec = self.on_request(spec)
        if self.on_hosts is not None:
            hosts = self.on_hosts(hosts, rows)
        return hosts, spec

    def at(self, host: str, node: str) -> "Change":
        """Return the change with the name of its host; a change of the request or of an aggregate stays as it is."""
        if self.on_hosts is None or self.kind == "metadata":
            return self
        return replace(self, host=host, node=node, text=self.text.format(host=host))


def apply_changes(hosts: HostTable, spec: RequestSpec, changes: Sequence[Change]) -> tuple[HostTable, RequestSpec]:
    """Return cloud and request after changes, each made to the host that it names."""
    for change in changes:
        node = None if change.family in OF_SERVICE_HOST else change.node
        nobody = np.zeros(len(hosts), dtype=np.bool_)
        rows = nobody if change.host is None else hosts.rows_named(change.host, node)
        hosts, spec = change.apply(hosts, spec, rows)
    return hosts, spec


# --- changes of the request -------------------------------------------------------------------------------------------


def request_changes(hosts: HostTable, spec: RequestSpec) -> Iterator[Change]:
    """Yield what could be asked differently, amounts apart. ``spec``: as the client made it, without its query."""
    yield from _places(spec)
    yield from _zones(hosts, spec)
    yield from _hints(spec)
    yield from _traits(spec)
    yield from _resources_given_up(spec)
    yield from _extra_specs(hosts, spec)
    yield from _image_properties(hosts, spec)


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
        text = f"leave the {group.policy} group {group.uuid} out"
        yield Change("group", text, GIVE_UP, "group", group.uuid, None, "", _without_group)


def _traits(spec: RequestSpec) -> Iterator[Change]:
    required, forbidden = _asked_traits(spec)
    for trait in sorted(required):
        text = f"do without the trait {trait}"
        yield Change("trait", text, GIVE_UP, trait, "required", None, "traits", partial(_without_trait, trait))
    for trait in sorted(forbidden - required):
        text = f"accept the trait {trait}"
        yield Change("trait", text, GIVE_UP, trait, "forbidden", None, "traits", partial(_without_trait, trait))


def _asked_traits(spec: RequestSpec) -> tuple[frozenset[str], frozenset[str]]:
    """Return the traits that a request requires and forbids, in any of its groups."""
    query = with_resources(spec).query
    return (
        (query.required | query.root_required).union(*(group.required for group in query.groups)),
        (query.forbidden | query.root_forbidden).union(*(group.forbidden for group in query.groups)),
    )


def _named_resources(flavor: Flavor, resource_class: str) -> list[str]:
    """Return the extra specs that ask for a resource."""
    return [
        key
        for key in flavor.extra_specs
        if (found := PLACEMENT_KEY.fullmatch(key)) and found[1] == "resources" and found[3] == resource_class
    ]


def can_change(flavor: Flavor, resource_class: str) -> bool:
    """Tell whether a flavor says itself how much of a resource it asks for."""
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
    """Return the change that asks for another amount of a resource."""
    text = (
        f"ask for {new} {resource_class} instead of {old}" if new else f"ask for no {resource_class} instead of {old}"
    )
    change = partial(_with_amount, resource_class, new)
    return Change("resource", text, abs(new - old) / old, resource_class, old, new, "", change)


def _with_amount(resource_class: str, amount: int, spec: RequestSpec) -> RequestSpec:
    return replace(spec, flavor=with_amount(spec.flavor, resource_class, amount))


def with_amount(flavor: Flavor, resource_class: str, amount: int) -> Flavor:
    """Return a flavor that asks for ``amount``: in its extra specs where they say it, else in its own figures.

    Disk is taken from the root disk first, then from the ephemeral one, then from swap.
    """
    if named := _named_resources(flavor, resource_class):
        rest = {key: value for key, value in flavor.extra_specs.items() if key not in named}
        return replace(flavor, extra_specs={**rest, named[0]: str(amount)})
    if resource_class in {"VCPU", "PCPU"}:
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


# --- changes of hosts -------------------------------------------------------------------------------------------------


def host_changes(hosts: HostTable, spec: RequestSpec) -> Iterator[Change]:
    """Yield what could be done to hosts, amounts apart; ``{host}`` in a text stands for the host it is done to."""
    if hosts.disabled.any() or hosts.has_trait(DISABLED_TRAIT).any():
        yield _of_host("enable", "enable {host}", "service", _enabled)
    if hosts.forced_down.any():
        yield _of_host("forced down", "take back that {host} is forced down", "service", _not_forced)
    if (hosts.last_seen != hosts.taken_at).any():
        yield _of_host("heartbeat", "have {host} send heartbeats again", "service", _heard)
    required, forbidden = _asked_traits(spec)
    for trait in sorted(required):
        text, change = f"give {{host}} the trait {trait}", partial(_with_trait, trait, True)
        yield _of_host("trait of host", text, "host traits", change, trait, None, trait)
    for trait in sorted(forbidden - required):
        text, change = f"take the trait {trait} from {{host}}", partial(_with_trait, trait, False)
        yield _of_host("trait of host", text, "host traits", change, trait, trait, None)
    for index, aggregate in enumerate(hosts.aggregates.aggregates[:_MOST_AGGREGATES]):
        name = aggregate.name
        text, change = f"add {{host}} to the aggregate {_plain(name)}", partial(_in_aggregate, index, True)
        yield _of_host("aggregate", text, "aggregates", change, name, None, name)
        text, change = f"remove {{host}} from the aggregate {_plain(name)}", partial(_in_aggregate, index, False)
        yield _of_host("aggregate", text, "aggregates", change, name, name, None)
        for key, old, new in _fitting_metadata(aggregate, spec):
            text, change = f"set {key}={new} on the aggregate {name}", partial(_with_metadata, index, key, new)
            yield _of_host("metadata", text, "aggregates", change, f"{name}: {key}", old, new)


def _of_host(
    kind: str,
    text: str,
    family: str,
    change: Callable[[HostTable, BoolArray], HostTable],
    name: str = "",
    old: str | None = None,
    new: str | None = None,
) -> Change:
    return Change(kind, text, SWITCH, name, old, new, family, on_hosts=change)


def _plain(name: str) -> str:
    """Return a name for a text in which the host's is still to be filled in."""
    return name.replace("{", "{{").replace("}", "}}")


def _fitting_metadata(aggregate: Aggregate, spec: RequestSpec) -> Iterator[tuple[str, str | None, str]]:
    """Yield (key, present value, new value) of metadata with which an aggregate would be one for the request."""
    wanted: dict[str, str] = {}
    for key, value in spec.flavor.extra_specs.items():
        scope, colon, rest = key.partition(":")
        if (not colon or scope == AGGREGATE_SCOPE) and value.split()[:1] and value.split()[0] not in OPERATORS:
            wanted[rest if colon else key] = value
    for key in aggregate.metadata:
        if key.startswith(TENANT_PREFIX):
            wanted[key] = spec.project_id
        elif key == FLAVORS_KEY:
            wanted[key] = spec.flavor.name
        elif spec.image is not None and key in spec.image.properties:
            wanted[key] = spec.image.properties[key]
    for key, value in wanted.items():
        old = aggregate.metadata.get(key)
        if value and value not in split(old or ""):
            yield key, old, f"{old},{value}" if old else value


def free_change(resource_class: str, amount: int, asked: int) -> Change:
    """Return the change that frees ``amount`` of a resource on a host; ``asked``: what the request asks for."""
    text, change = f"free {amount} {resource_class} on {{host}}", partial(_freed, resource_class, amount)
    return Change("free", text, amount / asked, resource_class, None, amount, on_hosts=change)


def instances_change(count: int) -> Change:
    """Return the change that takes ``count`` instances off a host, as far as rules count them."""
    text = f"move {count} instance{'s' if count > 1 else ''} off {{host}}"
    return Change("instances", text, float(count), "num_instances", None, count, on_hosts=partial(_emptier, count))


def io_ops_change(count: int) -> Change:
    """Return the change that lets ``count`` io-heavy operations of a host come to their end."""
    text = f"let {count} io-heavy operation{'s' if count > 1 else ''} on {{host}} end"
    return Change("io operations", text, float(count), "num_io_ops", None, count, on_hosts=partial(_calmer, count))


def _freed(resource_class: str, amount: int, hosts: HostTable, rows: BoolArray) -> HostTable:
    used = hosts.used.copy(order="K")
    used[rows, hosts.column(resource_class)] -= amount
    return replace(hosts, used=used)


def _emptier(count: int, hosts: HostTable, rows: BoolArray) -> HostTable:
    return replace(hosts, num_instances=hosts.num_instances - count * rows)


def _calmer(count: int, hosts: HostTable, rows: BoolArray) -> HostTable:
    return replace(hosts, num_io_ops=hosts.num_io_ops - count * rows)


def _enabled(hosts: HostTable, rows: BoolArray) -> HostTable:
    return replace(_with_trait(DISABLED_TRAIT, False, hosts, rows), disabled=hosts.disabled & ~rows)


def _not_forced(hosts: HostTable, rows: BoolArray) -> HostTable:
    return replace(hosts, forced_down=hosts.forced_down & ~rows)


def _heard(hosts: HostTable, rows: BoolArray) -> HostTable:
    return replace(hosts, last_seen=np.where(rows, hosts.taken_at, hosts.last_seen))


def _with_trait(trait: str, has: bool, hosts: HostTable, rows: BoolArray) -> HostTable:
    known, bits = hosts.trait_rows, hosts.trait_bits
    if trait not in known:
        if not has:
            return hosts
        known = {**known, trait: len(bits)}
        bits = np.concatenate([bits, np.zeros((1, len(hosts)), dtype=np.bool_)])
    else:
        bits = bits.copy()
    bits[known[trait]] = bits[known[trait]] | rows if has else bits[known[trait]] & ~rows
    return replace(hosts, trait_rows=known, trait_bits=bits, memo=Memo())


def _in_aggregate(index: int, member: bool, hosts: HostTable, rows: BoolArray) -> HostTable:
    membership = hosts.aggregates.membership.copy()
    membership[index] = membership[index] | rows if member else membership[index] & ~rows
    names = {hosts.hosts[row] for row in np.flatnonzero(rows)}
    aggregates = list(hosts.aggregates.aggregates)
    before = aggregates[index].hosts
    after = (*before, *sorted(names - set(before))) if member else tuple(name for name in before if name not in names)
    aggregates[index] = replace(aggregates[index], hosts=after)
    return _with_aggregates(hosts, aggregates, membership)


def _with_metadata(index: int, key: str, value: str, hosts: HostTable, rows: BoolArray) -> HostTable:  # noqa: ARG001
    aggregates = list(hosts.aggregates.aggregates)
    aggregates[index] = replace(aggregates[index], metadata={**aggregates[index].metadata, key: value})
    return _with_aggregates(hosts, aggregates, hosts.aggregates.membership)


def _with_aggregates(hosts: HostTable, aggregates: list[Aggregate], membership: BoolArray) -> HostTable:
    isolation = compile_isolation(aggregates, membership)
    index = replace(hosts.aggregates, aggregates=tuple(aggregates), membership=membership, isolation=isolation)
    return replace(hosts, aggregates=index, memo=Memo())
