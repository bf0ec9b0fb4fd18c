# SPDX-License-Identifier: Apache-2.0
"""Changes of hosts and aggregates that could make a request fit."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from kilonova.model.aggregate import Aggregate
from kilonova.model.request_spec import RequestSpec
from kilonova.scheduler.aggregate_rules import split
from kilonova.scheduler.explanations.changes import SWITCH, Change
from kilonova.scheduler.explanations.request_changes import asked_traits
from kilonova.scheduler.extra_specs import OPERATORS
from kilonova.scheduler.filters.aggregate_instance_extra_specs import SCOPE as AGGREGATE_SCOPE
from kilonova.scheduler.filters.aggregate_type_affinity import KEY as FLAVORS_KEY
from kilonova.scheduler.host_table import BoolArray, HostTable
from kilonova.scheduler.isolation_rules import compile_isolation
from kilonova.scheduler.memo import Memo
from kilonova.scheduler.request_filters import DISABLED_TRAIT
from kilonova.scheduler.request_filters.require_tenant_aggregate import TENANT_PREFIX

_MOST_AGGREGATES = 64


def host_changes(hosts: HostTable, spec: RequestSpec) -> Iterator[Change]:
    """Yield possible changes of hosts and aggregates, except changes of resource amounts.

    The text of a change has the placeholder ``{host}`` for the name of the host.
    """
    if hosts.disabled.any() or hosts.has_trait(DISABLED_TRAIT).any():
        yield _of_host("enable", "enable {host}", "service", _enabled)
    if hosts.forced_down.any():
        yield _of_host("forced down", "unset forced_down of {host}", "service", _not_forced)
    if (hosts.last_seen != hosts.taken_at).any():
        yield _of_host("heartbeat", "make {host} send heartbeats again", "service", _heard)
    required, forbidden = asked_traits(spec)
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
    """Escape the braces of a name for use in a format string with ``{host}``."""
    return name.replace("{", "{{").replace("}", "}}")


def _fitting_metadata(aggregate: Aggregate, spec: RequestSpec) -> Iterator[tuple[str, str | None, str]]:
    """Yield (key, current value, new value) of metadata changes that would make an aggregate match the request."""
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
    """Return the change that frees ``amount`` of a resource on a host. ``asked``: the requested amount."""
    text, change = f"free {amount} {resource_class} on {{host}}", partial(_freed, resource_class, amount)
    return Change("free", text, amount / asked, resource_class, None, amount, on_hosts=change)


def instances_change(count: int) -> Change:
    """Return the change that reduces the number of instances of a host by ``count``, without freeing resources."""
    text = f"move {count} server{'s' if count > 1 else ''} off {{host}}"
    return Change("instances", text, float(count), "num_instances", None, count, on_hosts=partial(_emptier, count))


def io_ops_change(count: int) -> Change:
    """Return the change that reduces the number of io-heavy operations of a host by ``count``."""
    text = f"wait until {count} io-heavy operation{'s' if count > 1 else ''} on {{host}} ended"
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
