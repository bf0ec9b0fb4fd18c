# SPDX-License-Identifier: Apache-2.0
"""The rules of a request in their order: host names, isolation, moves, request filters, Placement conditions, filters.

A decision runs the rules until no host is left. An explanation runs all rules on all hosts.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from kilonova.errors import RequestFilterFailed, RuleFailed
from kilonova.model.request_spec import REBUILD, REBUILD_HINT, RequestSpec, ResourceGroup, ResourceQuery
from kilonova.placement.capacity import CommonUnits, most_used
from kilonova.scheduler.aggregate_index import AggregateIndex
from kilonova.scheduler.aggregate_rules import in_any
from kilonova.scheduler.engine.move_rules import ABILITY_RULE, HYPERVISOR_RULE, move_steps
from kilonova.scheduler.engine.provider_trees import (
    Allotment,
    allotment_from_tree,
    can_serve,
    classes_of_others,
    is_plain,
    needs_trees,
)
from kilonova.scheduler.engine.step import Step
from kilonova.scheduler.host_table import BoolArray, HostTable, IntArray
from kilonova.scheduler.isolation_rules import Candidate
from kilonova.scheduler.nova_compat.adapters import HostFilterAdapter
from kilonova.scheduler.rule import Filter, RequestFilter, reason_of, rule_name

PLACEMENT_RULE = "Placement: "
"""Prefix of the rule names of Placement conditions."""
ISOLATION_RULE = "isolation"
#: Names of the rules that run for certain requests, independent of the configuration.
OWN_RULES = (
    *("ignore_hosts", "tried_hosts", "requested_destination", "force_hosts"),
    *(ISOLATION_RULE, HYPERVISOR_RULE, ABILITY_RULE),
)
_PROVIDERS = f"{PLACEMENT_RULE}providers"


def is_rebuild_check(spec: RequestSpec) -> bool:
    """Tell whether the request only checks that a server's current host can run the server with a new image."""
    return spec.hints.get(REBUILD_HINT) == REBUILD


def is_forced(spec: RequestSpec) -> bool:
    """Tell whether the request forces a host or node, so that the filters do not run."""
    return bool(spec.force_host or spec.force_node) and REBUILD_HINT not in spec.hints


def funnel(
    hosts: HostTable,
    spec: RequestSpec,
    request_filters: Sequence[RequestFilter],
    filters: Sequence[Filter],
    still_in: Callable[[], BoolArray],
) -> Iterator[Step]:
    """Yield the verdicts of the rules that apply to the request, in the order in which they run.

    ``still_in``: returns the mask of the hosts that all previous rules accepted; only Nova-style filters call it.
    A forced host bypasses the filters and no other rule. A rebuild check skips request filters and Placement, and runs
    only the filters with ``runs_on_rebuild``. Column filters run before Nova-style filters. Shapes: → (H,).
    """
    yield from name_steps(hosts, spec)
    yield from isolation_steps(hosts, spec)
    yield from move_steps(hosts, spec)
    rebuild = is_rebuild_check(spec)
    if not rebuild:
        complete = yield from _request_filters(hosts, spec, request_filters)
        yield from _placement(hosts, spec.query, complete.query, still_in)
    if is_forced(spec):
        return
    for each in _in_order(each for each in filters if each.runs_on_rebuild or not rebuild):
        name = rule_name(each)
        yield Step(name, reason_of(each, spec), _ask(each, name, hosts, spec, still_in), each)


class LaterRoom(NamedTuple):
    """A capacity check of one resource class. It runs again for every server of a request except the first."""

    rule: str
    reason: str
    resource_class: str
    amount: int

    def lost(self, hosts: HostTable, rows: IntArray) -> IntArray:
        """Return those of ``rows`` whose hosts have no room for one more server."""
        column = hosts.column(self.resource_class)
        if column is None:
            return rows
        full: IntArray = rows[hosts.used[rows, column] > _most_used_at(hosts, column, self.amount, rows)]
        return full

    def has_room(self, hosts: HostTable, row: int) -> bool:
        """Tell whether the host at ``row`` has room for one more server."""
        return not len(self.lost(hosts, np.array([row])))

    def passes_at(self, hosts: HostTable, rows: IntArray) -> BoolArray:
        """Tell which of ``rows`` have room for one server. Shapes: (N,) → (N,)."""
        column = hosts.column(self.resource_class)
        if column is None:
            return np.zeros(len(rows), dtype=np.bool_)
        fits: BoolArray = hosts.used[:, column].take(rows) <= _most_used_at(hosts, column, self.amount, rows)
        return fits


class LaterFilter(NamedTuple):
    """A filter that runs again for every server of a request except the first.

    ``only_where_placed``: placing a server changes the result for the chosen host only.
    """

    rule: str
    reason: str
    only_where_placed: bool
    filter: Filter

    def passes(self, hosts: HostTable, spec: RequestSpec, still_in: BoolArray) -> BoolArray:
        """Return the mask of the hosts that pass the filter. Shapes: → (H,). Raises: RuleFailed."""
        return _ask(self.filter, self.rule, hosts, spec, lambda: still_in)


class LaterPlacement(NamedTuple):
    """The Placement query that runs again for every server of a request except the first.

    It covers all hosts, since one server can fill a sharing provider that many hosts use.
    ``query``: the query with the conditions of the request filters.
    """

    rule: str
    reason: str
    query: ResourceQuery

    def passes(self, hosts: HostTable, still_in: BoolArray) -> BoolArray:
        """Return the mask of the hosts that satisfy the query. Shapes: → (H,)."""
        passed = still_in
        for step in _room_steps(hosts, self.query, lambda: still_in):
            passed = passed & step.mask
        return passed

    def has_room(self, hosts: HostTable, row: int) -> bool:
        """Tell whether the host at ``row``, with its nested and sharing providers, has room for one more server."""
        one = np.zeros(len(hosts), dtype=np.bool_)
        one[row] = True
        found: BoolArray = self.passes(hosts, one)
        return bool(found[row])


def later_room(
    hosts: HostTable, spec: RequestSpec, request_filters: Sequence[RequestFilter]
) -> tuple[LaterRoom | LaterPlacement, ...]:
    """Return the Placement conditions that must be checked again for every server of a request except the first."""
    if is_plain(hosts, spec.query):
        wanted = [(name, amount) for name, amount in spec.query.totals.items() if amount]
        return tuple(LaterRoom(*_words_for(name, amount), name, amount) for name, amount in wanted)
    complete = filtered(hosts, spec, request_filters).query
    return (LaterPlacement(_PROVIDERS, _unserved(complete), complete),)


def later_filters(spec: RequestSpec, filters: Sequence[Filter]) -> tuple[LaterFilter, ...]:
    """Return, in order, the filters that must run again for every server of a request except the first."""
    if is_forced(spec):
        return ()
    return tuple(_later(each, spec) for each in _in_order(each for each in filters if not each.run_once))


def _later(each: Filter, spec: RequestSpec) -> LaterFilter:
    return LaterFilter(rule_name(each), reason_of(each, spec), bool(getattr(each, "only_where_placed", False)), each)


def _words_for(name: str, amount: int) -> tuple[str, str]:
    return f"Placement: {name}", f"cannot give {amount} {name}"


def _in_order(filters: Iterable[Filter]) -> list[Filter]:
    """Sort the filters: column filters first, then Nova-style filters, which run host by host."""
    return sorted(filters, key=lambda one: isinstance(one, HostFilterAdapter))


def name_steps(hosts: HostTable, spec: RequestSpec) -> Iterator[Step]:
    """Yield the verdicts of the rules on host names.

    The names of ignored and forced hosts are compared case-insensitively, all other names exactly.
    """
    if spec.ignore_hosts:
        yield Step("ignore_hosts", "the request excludes this host", _not_ignored(hosts, spec))
    if spec.tried:
        yield Step("tried_hosts", "a build of the server failed on this host", hosts.other_than(spec.tried))
    if spec.requested_host or spec.requested_node:
        yield Step("requested_destination", "not the requested host", _destination(hosts, spec))
    if spec.force_host or spec.force_node:
        forced = hosts.rows_named(spec.force_host or None, spec.force_node or None)
        yield Step("force_hosts", "not the forced host", forced)


def _not_ignored(hosts: HostTable, spec: RequestSpec) -> BoolArray:
    passed = hosts.all_hosts
    for name in spec.ignore_hosts:
        passed = passed & ~hosts.rows_named(name, None)
    return passed


def _destination(hosts: HostTable, spec: RequestSpec) -> BoolArray:
    host, node = spec.requested_host, spec.requested_node
    rows = hosts.rows_of_host().get(host, ()) if host else range(len(hosts))
    passed = np.zeros(len(hosts), dtype=np.bool_)
    passed[[row for row in rows if not node or hosts.nodes[row] == node]] = True
    return passed


def isolation_steps(hosts: HostTable, spec: RequestSpec) -> Iterator[Step]:
    """Yield the verdict of the isolation rules of aggregates, or nothing if no aggregate has an isolation rule.

    These rules cannot be disabled or bypassed. The fault of a server shows the reasons of verdicts, so the reasons do
    not quote the rules.
    """
    isolation = hosts.aggregates.isolation
    if isolation is None:
        return
    met = isolation.met_by(Candidate(spec.flavor, spec.image, spec.project_id))
    reason = (
        "outside the hosts of the server's isolation rules" if met else "reserved by isolation rules for other servers"
    )
    yield Step(ISOLATION_RULE, reason, isolation.hosts_under(met))


def filtered(hosts: HostTable, spec: RequestSpec, request_filters: Sequence[RequestFilter]) -> RequestSpec:
    """Return the request with the conditions that all request filters add. Raises: RequestFilterFailed."""
    for request_filter in request_filters:
        spec = request_filter.apply(spec, hosts.aggregates)
    return spec


def conditions(
    aggregates: AggregateIndex, spec: RequestSpec, request_filters: Sequence[RequestFilter]
) -> tuple[ResourceQuery | str, ...]:
    """Return, for each request filter, the query with the conditions up to its own, or why it fails."""
    found: list[ResourceQuery | str] = []
    for request_filter in request_filters:
        try:
            spec = request_filter.apply(spec, aggregates)
        except RequestFilterFailed as failure:
            found.append(failure.message)
        else:
            found.append(spec.query)
    return tuple(found)


def _request_filters(
    hosts: HostTable, spec: RequestSpec, request_filters: Sequence[RequestFilter]
) -> Generator[Step, None, RequestSpec]:
    """Yield, for each request filter, a verdict on the conditions that it adds.

    If a request filter fails, its verdict excludes all hosts. Returns the request with the conditions of all request
    filters.
    """
    for request_filter in request_filters:
        before = spec.query
        try:
            spec = request_filter.apply(spec, hosts.aggregates)
        except RequestFilterFailed as failure:
            yield Step(request_filter.name, failure.message, np.zeros(len(hosts), dtype=np.bool_))
            continue
        if spec.query is not before and (masks := _conditions(hosts, spec.query, before)):
            added = masks[0]
            for mask in masks[1:]:
                added = added & mask
            yield Step(request_filter.name, reason_of(request_filter, spec), added)
    return spec


def _conditions(hosts: HostTable, query: ResourceQuery, known: ResourceQuery) -> list[BoolArray]:
    """Return a mask for each trait and aggregate condition that is in ``query`` and not in ``known``."""
    required = (query.root_required - known.root_required) | (query.required - known.required)
    forbidden = (query.root_forbidden - known.root_forbidden) | (query.forbidden - known.forbidden)
    masks = [hosts.has_trait(trait) for trait in sorted(required)]
    masks += [~hosts.has_trait(trait) for trait in sorted(forbidden)]
    masks += [_in_aggregates(hosts, uuids) for uuids in query.member_of if uuids not in known.member_of]
    if closed := query.forbidden_aggregates - known.forbidden_aggregates:
        masks.append(~_in_aggregates(hosts, closed))
    return masks


def _in_aggregates(hosts: HostTable, uuids: frozenset[str]) -> BoolArray:
    return in_any(hosts, [aggregate.uuid in uuids for aggregate in hosts.aggregates.aggregates])


def _placement(
    hosts: HostTable,
    asked: ResourceQuery,
    complete: ResourceQuery,
    still_in: Callable[[], BoolArray],
) -> Iterator[Step]:
    """Yield a verdict on each Placement condition from the flavor, the image and the caller.

    ``asked``: the original query. ``complete``: the query with the conditions of the request filters.
    """
    for uuids in asked.member_of:
        yield Step("Placement: member_of", "not in a wanted aggregate", _in_aggregates(hosts, uuids))
    if closed := asked.forbidden_aggregates:
        yield Step("Placement: member_of", "in a forbidden aggregate", ~_in_aggregates(hosts, closed))
    for trait in sorted(asked.root_required):
        yield Step(f"Placement: {trait}", "lacks the trait", hosts.has_trait(trait))
    for trait in sorted(asked.root_forbidden):
        yield Step(f"Placement: {trait}", "has the forbidden trait", ~hosts.has_trait(trait))
    yield from _room_steps(hosts, complete, still_in)


def _room_steps(hosts: HostTable, query: ResourceQuery, still_in: Callable[[], BoolArray]) -> Iterator[Step]:
    """Yield the verdicts of :func:`resource_steps`. Hosts that satisfy the whole fallback query pass every verdict."""
    steps = resource_steps(hosts, query, still_in)
    if query.fallback is None:
        yield from steps
        return
    otherwise = hosts.all_hosts
    for step in resource_steps(hosts, fallback_query(query, query.fallback), still_in):
        otherwise = otherwise & step.mask
    for step in steps:
        yield step._replace(mask=step.mask | otherwise, judge=LaterPlacement(step.rule, step.reason, query))


def fallback_query(query: ResourceQuery, fallback: ResourceQuery) -> ResourceQuery:
    """Return the fallback query: the resources and traits of ``fallback`` with the other conditions of ``query``."""
    return replace(
        query,
        resources=fallback.resources,
        required=fallback.required,
        forbidden=fallback.forbidden,
        groups=fallback.groups,
        group_policy=fallback.group_policy,
        fallback=None,
    )


def resource_steps(hosts: HostTable, query: ResourceQuery, still_in: Callable[[], BoolArray]) -> Iterator[Step]:
    """Yield a verdict on each resource and each trait of the query.

    If the query needs a search in provider trees, one common verdict covers all resources and traits.
    """
    if needs_trees(hosts, query):
        elsewhere = classes_of_others(hosts)
        for name, amount in query.resources.items():
            if amount and name not in elsewhere:
                yield _room(hosts, name, amount)
        for group in query.groups:
            if group.port_id:
                suits = can_serve(hosts, ResourceQuery(groups=(group,)), still_in())
                yield Step(f"{PLACEMENT_RULE}port {group.port_id}", _unserved_port(group), suits)
        reason = _unserved(query)
        served = can_serve(hosts, query, still_in())
        yield Step(_PROVIDERS, reason, served, LaterPlacement(_PROVIDERS, reason, query))
        return
    required = query.required.union(*(group.required for group in query.groups))
    forbidden = query.forbidden.union(*(group.forbidden for group in query.groups))
    for trait in sorted(required):
        yield Step(f"Placement: {trait}", "lacks the trait", hosts.has_trait(trait))
    for trait in sorted(forbidden):
        yield Step(f"Placement: {trait}", "has the forbidden trait", ~hosts.has_trait(trait))
    for name, amount in query.totals.items():
        if amount:
            yield _room(hosts, name, amount)
    if query.isolates:
        yield Step(_PROVIDERS, _unserved(query), np.zeros(len(hosts), dtype=np.bool_))


def _room(hosts: HostTable, name: str, amount: int) -> Step:
    words = _words_for(name, amount)
    return Step(*words, has_room(hosts, name, amount), LaterRoom(*words, name, amount))


def _unserved(query: ResourceQuery) -> str:
    groups = [("", query.resources), *((group.suffix, group.resources) for group in query.groups)]
    asked = [f"resources{suffix}:{name}={amount}" for suffix, given in groups for name, amount in given.items()]
    apart = ", each group on a provider of its own" if query.isolates else ""
    return f"its providers cannot give {', '.join(asked)}{apart}"


def _unserved_port(group: ResourceGroup) -> str:
    asked = ", ".join(f"{amount} {name}" for name, amount in group.resources.items()) or "the traits of the port"
    traits = f" with {', '.join(sorted(group.required))}" if group.required else ""
    named = "" if group.suffix == group.port_id else f" (request group {group.suffix})"
    return f"none of its providers can give {asked}{traits} to port {group.port_id}{named}"


def allotment_at(hosts: HostTable, query: ResourceQuery, row: int) -> Allotment:
    """Return the allocations that a server with this query would have on the host at ``row``.

    ``query``: the query with the conditions of the request filters. If the host has no room, the result allocates
    everything from the host's root provider, so the claim fails.
    """
    alternatives = [query]
    if query.fallback is not None:
        alternatives.append(fallback_query(query, query.fallback))
    for each in alternatives:
        if needs_trees(hosts, each):
            found = allotment_from_tree(hosts, each, row)
            if found is not None:
                return found
        elif len(alternatives) == 1 or _fits(hosts, each, row):
            return Allotment({hosts.uuids[row]: each.totals})
    return Allotment({hosts.uuids[row]: query.totals})


def _fits(hosts: HostTable, query: ResourceQuery, row: int) -> bool:
    alive = hosts.all_hosts
    return all(step.mask[row] for step in resource_steps(hosts, query, lambda: alive))


def has_room(hosts: HostTable, resource_class: str, amount: int) -> BoolArray:
    """Return the hosts with room for ``amount``, within capacity, unit limits and step size. Shapes: → (H,)."""
    column = hosts.column(resource_class)
    if column is None:
        return np.zeros(len(hosts), dtype=np.bool_)
    if _is_allowed(hosts, column, amount):
        most = hosts.capacity[:, column] - amount
    else:
        most = _most_used(hosts, column, amount)
    fits: BoolArray = hosts.used[:, column] <= most
    return fits


def _is_allowed(hosts: HostTable, column: int, amount: int) -> bool:
    """Tell whether the units of all hosts with inventory allow an amount, so that no array of limits is needed."""
    units: CommonUnits = hosts.memo.get(("units", column), lambda: CommonUnits.of(hosts, column))
    return units.allow(amount)


def _most_used(hosts: HostTable, column: int, amount: int) -> IntArray:
    """Return the cached result of :func:`most_used` for all hosts. Shapes: → (H,)."""
    most: IntArray = hosts.memo.get(("most used", column, amount), lambda: most_used(hosts, column, amount))
    return most


def _most_used_at(hosts: HostTable, column: int, amount: int, rows: IntArray) -> IntArray:
    """Return the result of :func:`most_used` for some rows. Shapes: (N,) → (N,)."""
    if _is_allowed(hosts, column, amount):
        return hosts.capacity[:, column].take(rows) - amount
    return _most_used(hosts, column, amount).take(rows)


def _ask(rule: Filter, name: str, hosts: HostTable, spec: RequestSpec, still_in: Callable[[], BoolArray]) -> BoolArray:
    """Run a filter and return its mask. Raises: RuleFailed, if the filter fails or returns an invalid mask."""
    try:
        if isinstance(rule, HostFilterAdapter):
            return rule.passes_among(hosts, spec, still_in())
        mask = rule.passes(hosts, spec)
    except Exception as error:  # third-party code may raise any exception
        raise RuleFailed(f"Filter {name} failed.", rule=name) from error
    if mask is not hosts.all_hosts and (mask.dtype != np.bool_ or mask.shape != (len(hosts),)):
        raise RuleFailed(f"Filter {name} failed: it returned {mask.shape} {mask.dtype}, not a mask.", rule=name)
    return mask
