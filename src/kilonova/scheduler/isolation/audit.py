# SPDX-License-Identifier: Apache-2.0
"""Isolation audit: determines which servers can be placed on which hosts, and reports deviations from the rules.

In: the hosts, all flavors and images, the existing servers. Out: the pools (hosts of one rule) with the servers that
may use them, and findings: leaks (a server is, or could be, on a forbidden host), faults (rules that cannot work) and
notes.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from kilonova.model.aggregate import Aggregate
from kilonova.model.image import Image
from kilonova.model.placed_server import PlacedServer
from kilonova.model.request_spec import RequestSpec
from kilonova.records import dataclass
from kilonova.scheduler.host_table import BoolArray, HostTable
from kilonova.scheduler.isolation.legacy_mechanisms import LegacyMechanism, legacy_mechanisms
from kilonova.scheduler.isolation.legacy_mechanisms import Pool as LegacyPool
from kilonova.scheduler.isolation.universe import (
    Combination,
    Group,
    Judge,
    OfferedFlavor,
    combinations,
    grouped,
    labels,
)
from kilonova.scheduler.isolation_rules import Alternative, Candidate, Isolation, Rule, rule_of
from kilonova.scheduler.settings import SchedulerConfig

LEAK, FAULT, NOTE = "leak", "fault", "note"


def _nothing() -> None:
    pass


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding of the isolation audit. ``severity``: leak, fault or note. ``what``, ``remedy``: texts for operators.

    The other fields list the affected rules, aggregates, hosts, servers and groups of servers.
    """

    kind: str
    severity: str
    what: str
    remedy: str
    rules: tuple[str, ...] = ()
    aggregates: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    servers: tuple[PlacedServer, ...] = ()
    who: tuple[Group, ...] = ()


@dataclass(frozen=True, slots=True)
class Pool:
    """The hosts of one isolation rule, and the groups of servers that may use at least one of these hosts."""

    rule: str
    aggregates: tuple[str, ...]
    hosts: tuple[str, ...]
    may_enter: tuple[Group, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """The result of the isolation audit.

    ``open_hosts``: hosts without a rule. ``projects``: the projects that rules name, and ``*`` for all other projects.

    ``combinations``: number of kinds of servers (combinations of flavor, image and project) that were tested.
    """

    pools: tuple[Pool, ...]
    open_hosts: tuple[str, ...]
    findings: tuple[Finding, ...]
    projects: tuple[str, ...]
    flavors: int
    images: int
    servers: int
    combinations: int

    @property
    def is_clean(self) -> bool:
        return all(finding.severity == NOTE for finding in self.findings)


@dataclass(slots=True)
class _Walk:
    """The intermediate results of testing all combinations of flavor, image and project."""

    met: dict[int, list[Combination]] = field(default_factory=dict)
    may_enter: dict[Rule, list[Combination]] = field(default_factory=dict)
    stuck: list[Combination] = field(default_factory=list)
    usable_flavors: set[str] = field(default_factory=set)
    usable_images: set[str] = field(default_factory=set)
    strangers: dict[LegacyPool, list[Combination]] = field(default_factory=dict)
    strays: dict[LegacyPool, list[Combination]] = field(default_factory=dict)
    outside: dict[LegacyPool, BoolArray] = field(default_factory=dict)
    unkept: set[LegacyPool] = field(default_factory=set)


def audit(
    hosts: HostTable,
    offered: Sequence[OfferedFlavor],
    images: Sequence[Image],
    servers: Sequence[PlacedServer],
    config: SchedulerConfig,
    *,
    check: Callable[[], None] = _nothing,
) -> Report:
    """Test every kind of server on every host. ``images``: the bootable images.

    ``check``: called before each kind of server is tested; it can raise an exception to cancel the audit.
    """
    aggregates = hosts.aggregates.aggregates
    isolation = hosts.aggregates.isolation
    under = _Under.of(aggregates)
    tried = combinations(aggregates, isolation, offered, images, config)
    legacy = legacy_mechanisms(hosts, offered, images, config)
    walk = _walk(hosts, isolation, under, tried, legacy, Judge.of(hosts, config), check)
    findings = [
        *_broken(under),
        *_misplaced(under, isolation, servers),
        *_rules(under, isolation, walk),
        *_overlaps(isolation, under, walk),
        *(_unusable(offered, images, walk) if len(hosts) and tried else ()),
        *_taggable(under, walk),
        *_legacy(hosts, [pool for each in legacy if each.enabled for pool in each.pools], walk),
        *_without_effect(hosts, [each for each in legacy if not each.enabled], walk),
    ]
    order = {LEAK: 0, FAULT: 1, NOTE: 2}
    return Report(
        pools=tuple(
            Pool(str(rule), under.aggregates[rule], under.hosts[rule], grouped(walk.may_enter.get(rule, ())))
            for rule in under.hosts
        ),
        open_hosts=tuple(sorted(set(hosts.hosts) - under.rules.keys())),
        findings=tuple(sorted(findings, key=lambda finding: order[finding.severity])),
        projects=tuple(sorted({each.project for each in tried})),
        flavors=len(offered),
        images=len(images),
        servers=len(servers),
        combinations=len(tried),
    )


@dataclass(frozen=True, slots=True)
class _Under:
    """The rules of each host, and the hosts and aggregates of each rule. Includes hosts that the host table lacks."""

    hosts: dict[Rule, tuple[str, ...]]
    aggregates: dict[Rule, tuple[str, ...]]
    rules: dict[str, set[Rule]]

    @classmethod
    def of(cls, aggregates: Sequence[Aggregate]) -> "_Under":
        under = cls({}, {}, {})
        for aggregate in aggregates:
            rule = rule_of(aggregate.metadata)
            if rule is None:
                continue
            names = {*under.hosts.get(rule, ()), *aggregate.hosts}
            under.hosts[rule] = tuple(sorted(names))
            under.aggregates[rule] = (*under.aggregates.get(rule, ()), aggregate.name)
            for host in aggregate.hosts:
                under.rules.setdefault(host, set()).add(rule)
        return under

    def finding(self, rule: Rule, kind: str, severity: str, what: str, remedy: str, **more: Any) -> Finding:
        named = {"rules": (str(rule),), "aggregates": self.aggregates[rule], "hosts": self.hosts[rule]}
        return Finding(kind, severity, what, remedy, **{**named, **more})


def _walk(
    hosts: HostTable,
    isolation: Isolation | None,
    under: _Under,
    tried: Sequence[Combination],
    legacy: Sequence[LegacyMechanism],
    judge: Judge,
    check: Callable[[], None],
) -> _Walk:
    walk = _Walk()
    rules = isolation.rules if isolation is not None else ()
    pools = [_rows_of(hosts, under.hosts[rule]) for rule in rules]
    kept = [pool for each in legacy if each.enabled for pool in each.pools]
    doubtful = [pool for each in legacy if not each.enabled for pool in each.pools]
    for each in tried:
        check()
        met = isolation.met_by(Candidate(each.flavor, each.image, each.project)) if isolation is not None else 0
        walk.met.setdefault(met, []).append(each)
        allowed = judge.may_use(each)
        if not allowed.any():
            walk.stuck.append(each)
            continue
        walk.usable_flavors.update(each.flavors)
        walk.usable_images.update(each.images)
        for number, rule in enumerate(rules):
            # A server cannot use the hosts of a rule that it does not meet, so such rules are skipped.
            if met >> number & 1 and (allowed & pools[number]).any():
                walk.may_enter.setdefault(rule, []).append(each)
        spec = each.spec
        for pool in kept:
            if pool.is_stranger(spec):
                if (allowed & pool.hosts).any():
                    walk.strangers.setdefault(pool, []).append(each)
            elif (outside := allowed & ~pool.home(spec)).any():
                walk.strays.setdefault(pool, []).append(each)
                walk.outside[pool] = walk.outside.get(pool, outside) | outside
        # For a disabled mechanism, the audit only reports whether any server can violate the mechanism's intent.
        unkept = {pool for pool in doubtful if (allowed & _forbidden(pool, spec)).any()}
        if unkept:
            walk.unkept |= unkept
            doubtful = [pool for pool in doubtful if pool not in unkept]
    return walk


def _forbidden(pool: LegacyPool, spec: RequestSpec) -> BoolArray:
    """Return the hosts that the server must not use if the legacy mechanism of this pool works. Shapes: → (H,)."""
    return pool.hosts if pool.is_stranger(spec) else ~pool.home(spec)


def _rows_of(hosts: HostTable, names: Sequence[str]) -> BoolArray:
    mask = np.zeros(len(hosts), dtype=np.bool_)
    mask[[row for name in names for row in hosts.rows_of_host().get(name, ())]] = True
    return mask


def _broken(under: _Under) -> Iterator[Finding]:
    for rule in under.hosts:
        for key, _, why in rule.broken:
            yield under.finding(
                rule,
                "broken rule",
                FAULT,
                f"No server may use the hosts of {_names(under.aggregates[rule])}, because a rule is invalid: {why}",
                f"Correct {key}, or unset it.",
            )


def _misplaced(under: _Under, isolation: Isolation | None, servers: Sequence[PlacedServer]) -> Iterator[Finding]:
    """Yield findings on servers that run on hosts which the current rules do not allow."""
    if isolation is None:
        return
    bits = {rule: 1 << number for number, rule in enumerate(isolation.rules)}
    broken = sum(bit for rule, bit in bits.items() if rule.broken)
    over = {host: sum(bits[rule] for rule in rules) for host, rules in under.rules.items()}
    strangers: dict[Rule, list[PlacedServer]] = {}
    strays: dict[Rule, list[PlacedServer]] = {}
    for server in servers:
        met = isolation.met_by(Candidate(server.flavor, server.image, server.project_id))
        here = over.get(server.host, 0)
        if met == here and not here & broken:
            continue
        for rule, bit in bits.items():
            if here & bit & (broken | ~met):
                strangers.setdefault(rule, []).append(server)
            if met & bit & ~here:
                strays.setdefault(rule, []).append(server)
    for rule, found in strangers.items():
        yield under.finding(
            rule,
            "stranger",
            LEAK,
            f"{_count(found, 'server')} on hosts of {_names(under.aggregates[rule])} without meeting the rule.",
            "Move or delete these servers, or change the rule. The rule prevents further such servers.",
            hosts=_hosts_of(found),
            servers=tuple(found),
        )
    for rule, found in strays.items():
        yield under.finding(
            rule,
            "stray",
            LEAK,
            f"{_count(found, 'server')} outside the hosts of {_names(under.aggregates[rule])} despite its rule.",
            "Move or delete these servers, or change the rule. The rule prevents further such servers.",
            hosts=_hosts_of(found),
            servers=tuple(found),
        )


def _rules(under: _Under, isolation: Isolation | None, walk: _Walk) -> Iterator[Finding]:
    """Yield findings on rules without hosts, and on rules that no server meets."""
    for number, rule in enumerate(isolation.rules if isolation is not None else ()):
        names = _names(under.aggregates[rule])
        meeting = [each for met, found in walk.met.items() if met >> number & 1 for each in found]
        if not under.hosts[rule]:
            yield under.finding(
                rule,
                "empty pool",
                FAULT,
                f"{names} has no hosts, so servers that meet its rule find no host.",
                "Add hosts, or unset the rule.",
                who=grouped(meeting),
            )
        if not meeting and not rule.broken:
            yield under.finding(
                rule,
                "unmet rule",
                FAULT,
                f"No combination of flavor, image and project meets the rule of {names}: no server can use its hosts.",
                "Check the rule for a typing error, or create the flavor or image that the rule names.",
            )


def _overlaps(isolation: Isolation | None, under: _Under, walk: _Walk) -> Iterator[Finding]:
    """Yield findings on servers that meet several rules at once."""
    for met, found in walk.met.items():
        rules = [rule for number, rule in enumerate(isolation.rules) if met >> number & 1] if isolation else []
        if len(rules) < 2 or isolation is None:
            continue
        shared = sorted(name for name, over in under.rules.items() if over == set(rules))
        pools = " and ".join(_names(under.aggregates[rule]) for rule in rules)
        yield Finding(
            "overlap",
            NOTE if shared else FAULT,
            f"Some servers meet the rules of {pools}. They may use only the hosts that have exactly these rules:"
            f" {', '.join(shared) if shared else 'there are none'}.",
            "No action is needed if this is intended." if shared else "Add a host to all of them, or narrow a rule.",
            rules=tuple(map(str, rules)),
            aggregates=tuple(name for rule in rules for name in under.aggregates[rule]),
            hosts=tuple(shared),
            who=grouped(found),
        )


def _unusable(offered: Sequence[OfferedFlavor], images: Sequence[Image], walk: _Walk) -> Iterator[Finding]:
    """Yield findings on flavors and images for which no combination finds a host."""
    flavors = tuple(each.flavor.name for each in offered if each.flavor.name not in walk.usable_flavors)
    lost = tuple(name for name in labels(images).values() if name not in walk.usable_images)
    for kind, found, example in (("flavor", flavors, "image"), ("image", lost, "flavor")):
        if found:
            yield Finding(
                f"unusable {kind}",
                FAULT,
                f"Servers of {kind} {', '.join(found)} find no host that all rules allow, with any {example} and in any"
                " project.",
                "Add hosts to exactly the aggregates whose rules these servers meet, or change the rules.",
                who=grouped([each for each in walk.stuck if set(found) & {*each.flavors, *each.images}]),
            )


def _taggable(under: _Under, walk: _Walk) -> Iterator[Finding]:
    """Yield findings on rules that any user can meet by setting properties on an image."""
    for rule in under.hosts:
        open_to_all = sorted(map(_alternative, filter(_is_up_to_the_image, rule.alternatives)))
        if open_to_all and rule in walk.may_enter:
            yield under.finding(
                rule,
                "unprotected property",
                NOTE,
                f"Any user who may upload an image can set the properties that meet the rule of"
                f" {_names(under.aggregates[rule])}: {' | '.join(open_to_all)}.",
                "Protect the property in the image service, or add a project or a private flavor to the rule.",
            )


def _is_up_to_the_image(alternative: Alternative) -> bool:
    return all(condition.source in {"image", "trait"} for condition in alternative)


def _alternative(alternative: Alternative) -> str:
    return " and ".join(sorted(map(str, alternative)))


def _legacy(hosts: HostTable, pools: Sequence[LegacyPool], walk: _Walk) -> Iterator[Finding]:
    """Yield findings on enabled legacy mechanisms that fail to confine their servers or to exclude other servers."""
    for pool in pools:
        for half, what, found, where in (
            ("strangers", pool.lets_in, walk.strangers.get(pool), pool.hosts),
            ("strays", pool.lets_out, walk.strays.get(pool), walk.outside.get(pool, pool.hosts)),
        ):
            if found:
                yield Finding(
                    f"{pool.mechanism}: {half}",
                    LEAK,
                    what,
                    pool.remedy,
                    aggregates=pool.aggregates,
                    hosts=_named(hosts, where),
                    who=grouped(found),
                )


def _without_effect(hosts: HostTable, legacy: Sequence[LegacyMechanism], walk: _Walk) -> Iterator[Finding]:
    """Yield findings on disabled legacy mechanisms whose settings have an intent that no rule enforces."""
    for mechanism in legacy:
        pools = [pool for pool in mechanism.pools if pool in walk.unkept]
        if pools:
            set_on = dict.fromkeys(name for pool in pools for name in pool.set_on)
            yield Finding(
                "no effect",
                LEAK,
                f"{mechanism.off}, and no rule enforces these settings: {', '.join(set_on)}.",
                f"Set a kilonova:only rule, {mechanism.switch}, or unset the settings that are not intended.",
                aggregates=tuple(dict.fromkeys(name for pool in pools for name in pool.aggregates)),
                hosts=_named(hosts, np.logical_or.reduce([pool.hosts for pool in pools])),
            )


def _named(hosts: HostTable, mask: BoolArray) -> tuple[str, ...]:
    return tuple(dict.fromkeys(hosts.hosts[row] for row in np.flatnonzero(mask)))


def _names(aggregates: Sequence[str]) -> str:
    return f"aggregate {', '.join(aggregates)}"


def _hosts_of(servers: Sequence[PlacedServer]) -> tuple[str, ...]:
    return tuple(sorted({server.host for server in servers}))


def _count(found: Sequence[object], noun: str) -> str:
    return f"1 {noun} runs" if len(found) == 1 else f"{len(found)} {noun}s run"
