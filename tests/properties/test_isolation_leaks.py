# SPDX-License-Identifier: Apache-2.0
"""Isolation rules hold in both directions: 100,000 random servers, checked by an independent scalar definition.

The definition shares no code with the scheduler: it reads the aggregates as they are and knows the rules as they were
generated, before they were written as text.
"""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import product

from kilonova.model.aggregate import Aggregate
from kilonova.model.flavor import Flavor
from kilonova.model.image import Image
from kilonova.model.provider import Inventory
from kilonova.model.request_spec import RequestSpec
from kilonova.scheduler.engine.engine import Engine
from kilonova.scheduler.filters import AllHostsFilter
from kilonova.scheduler.host_records import HostRecord, build_host_table
from kilonova.scheduler.host_table import HostTable
from kilonova.scheduler.isolation.audit import audit
from kilonova.scheduler.isolation.universe import ANY_OTHER_PROJECT, UNTAGGED, OfferedFlavor
from kilonova.scheduler.settings import SchedulerConfig

CLOUDS = 200
SERVERS = 500
HOSTS = tuple(f"node{number}" for number in range(12))
INVENTORIES = (Inventory("VCPU", 1000),)

Meets = Callable[[RequestSpec], bool]
#: Text of a condition → its meaning.
CONDITIONS: dict[str, Meets] = {
    "image.trove": lambda spec: spec.image is not None and "trove" in spec.image.properties,
    "image.trove=true": lambda spec: spec.image is not None and spec.image.properties.get("trove") == "true",
    'image.os="win, and so on"': lambda spec: (
        spec.image is not None and spec.image.properties.get("os") == "win, and so on"
    ),
    "flavor=db": lambda spec: spec.flavor.name == "db",
    'flavor="big one"': lambda spec: spec.flavor.name == "big one",
    "spec.pool": lambda spec: "pool" in spec.flavor.extra_specs,
    "spec.hw:pool=x": lambda spec: spec.flavor.extra_specs.get("hw:pool") == "x",
    "project=p": lambda spec: spec.project_id == "p",
    "project=q": lambda spec: spec.project_id == "q",
    "trait=CUSTOM_GPU": lambda spec: (
        spec.flavor.extra_specs.get("trait:CUSTOM_GPU") == "required"
        or (spec.image is not None and spec.image.properties.get("trait:CUSTOM_GPU") == "required")
    ),
}
#: An alternative that the scheduler cannot parse: no server meets it, and it closes the hosts.
NONSENSE = "flavour=db"

FLAVORS = tuple(
    Flavor(name, name, 1, 1, 0, extra_specs=extra_specs)
    for name in ("db", "big one", "m1")
    for extra_specs in (
        {},
        {"pool": ""},
        {"hw:pool": "x"},
        {"hw:pool": "y", "trait:CUSTOM_GPU": "required"},
        {"trait:CUSTOM_GPU": "forbidden"},
    )
)
IMAGES = (
    None,
    *(
        Image("i", properties=properties)
        for properties in (
            {},
            {"trove": "true"},
            {"trove": "True"},
            {"os": "win, and so on"},
            {"os": "win", "trove": ""},
            {"trait:CUSTOM_GPU": "required"},
        )
    ),
)


@dataclass(frozen=True)
class MadeUp:
    """Generated rule. ``alternatives``: each is a set of texts of conditions."""

    alternatives: frozenset[frozenset[str]]

    def metadata(self, chance: random.Random) -> dict[str, str]:
        """Return the rule as aggregate metadata, in random order and with random keys."""
        keys = chance.sample(
            ["kilonova:only", "kilonova:only.1", "kilonova:only.b", "kilonova:only.Z_9"], len(self.alternatives)
        )
        return {
            key: " and ".join(chance.sample(sorted(each), len(each)))
            for key, each in zip(keys, self.alternatives, strict=True)
        }

    @property
    def is_closed(self) -> bool:
        return frozenset({NONSENSE}) in self.alternatives

    def is_met(self, spec: RequestSpec) -> bool:
        return any(NONSENSE not in each and all(CONDITIONS[text](spec) for text in each) for each in self.alternatives)


@dataclass(frozen=True)
class Cloud:
    """Intended hosts of each rule, and the host table that the scheduler sees."""

    pools: Mapping[MadeUp, frozenset[str]]
    table: HostTable


@dataclass
class Leaks:
    """Violations. ``strangers``: on a rule's hosts without meeting it; ``strays``: meet it and are on other hosts."""

    strangers: int = 0
    strays: int = 0
    refused: int = 0
    placed: int = 0


def make_rule(chance: random.Random) -> MadeUp:
    alternatives = set()
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        texts = chance.sample(sorted(CONDITIONS), chance.choice((1, 1, 2)))
        kinds = [text.partition("=")[0] for text in texts]
        if len(set(kinds)) == len(kinds):
            alternatives.add(frozenset(texts))
    if not alternatives or chance.random() < 0.03:
        alternatives.add(frozenset({NONSENSE}))
    return MadeUp(frozenset(alternatives))


def make_cloud(chance: random.Random, *, with_rules: bool = True) -> Cloud:
    known = [make_rule(chance) for _ in range(chance.randint(1, 3))]
    members = [(chance.choice(known), chance.sample(HOSTS, chance.randint(0, 6))) for _ in range(chance.randint(1, 4))]
    aggregates = [
        Aggregate(
            number,
            str(number),
            str(number),
            tuple(hosts),
            {"ssd": "true", **(rule.metadata(chance) if with_rules else {})},
        )
        for number, (rule, hosts) in enumerate(members)
    ]
    pools: dict[MadeUp, frozenset[str]] = {}
    for rule, hosts in members:
        pools[rule] = pools.get(rule, frozenset()) | frozenset(hosts)
    return Cloud(pools, build_host_table([HostRecord(name, INVENTORIES) for name in HOSTS], aggregates))


def make_server(chance: random.Random) -> RequestSpec:
    return RequestSpec(
        flavor=chance.choice(FLAVORS),
        image=chance.choice(IMAGES),
        project_id=chance.choice("pqr"),
        force_host=chance.choice(HOSTS) if chance.random() < 0.2 else None,
    )


def belonging(pools: Mapping[MadeUp, frozenset[str]], spec: RequestSpec) -> set[str]:
    """Return the hosts that a server may use: no host of an unmet rule, and only hosts of every rule that it meets."""
    right = set(HOSTS)
    for rule, hosts in pools.items():
        meets = rule.is_met(spec)
        if rule.is_closed or not meets:
            right -= hosts  # only servers that meet the rule may use its hosts
        if meets:
            right &= hosts  # servers that meet the rule may use no other hosts
    return right


def count_leaks(*, with_rules: bool, clouds: int = CLOUDS) -> Leaks:
    chance = random.Random(7)
    engine = Engine(filters=(AllHostsFilter(),))
    leaks = Leaks()
    for _ in range(clouds):
        cloud = make_cloud(chance, with_rules=with_rules)
        for _ in range(SERVERS):
            spec = make_server(chance)
            ranked = engine.decide(cloud.table, spec, limit=len(HOSTS)).ranked
            found = {each.host for each in ranked}
            asked = {spec.force_host} if spec.force_host else set(HOSTS)
            right = asked & belonging(cloud.pools, spec)
            leaks.placed += bool(found)
            leaks.refused += len(right - found)
            for host in found - right:
                inside = {rule for rule, hosts in cloud.pools.items() if host in hosts}
                leaks.strangers += any(rule.is_closed or not rule.is_met(spec) for rule in inside)
                leaks.strays += any(rule.is_met(spec) for rule in cloud.pools.keys() - inside)
    return leaks


def test_no_server_of_100_000_leaks_in_either_direction() -> None:
    leaks = count_leaks(with_rules=True)
    assert (leaks.strangers, leaks.strays) == (0, 0)
    assert leaks.refused == 0  # no server is kept from a host that it may use
    assert leaks.placed > CLOUDS * SERVERS / 3


def test_the_audit_lists_exactly_those_who_can_enter() -> None:
    """The engine places each combination of flavor, image and project."""
    chance = random.Random(11)
    engine = Engine(filters=(AllHostsFilter(),))
    config = SchedulerConfig(enabled_filters=("AllHostsFilter",))
    images = [replace(image, id=str(n), name=f"i{n}") for n, image in enumerate(IMAGES) if image is not None]
    entered = 0
    for _ in range(120):
        cloud = make_cloud(chance)
        flavors = list({each.name: each for each in chance.sample(FLAVORS, len(FLAVORS))}.values())
        offered = [OfferedFlavor(each, chance.choice((None, None, frozenset("p")))) for each in flavors]
        report = audit(cloud.table, offered, images, (), config)
        said = {
            (pool.hosts, flavor, image, project)
            for pool in report.pools
            for group in pool.may_enter
            for flavor, image, project in product(group.flavors, group.images, group.projects)
        }
        found = set()
        for each, image, project in product(offered, [*images, UNTAGGED], report.projects):
            stands_for = {project} if project != ANY_OTHER_PROJECT else {project, "p"} - {*report.projects[1:]}
            if each.projects is not None and not stands_for & each.projects:
                continue
            spec = RequestSpec(each.flavor, image, project_id=project)
            hosts = {ranked.host for ranked in engine.decide(cloud.table, spec, limit=len(HOSTS)).ranked}
            found |= {
                (pool.hosts, each.flavor.name, image.name, project) for pool in report.pools if hosts & {*pool.hosts}
            }
        assert said == found
        entered += len(found)
    assert entered > 800


def test_without_the_rules_they_leak_in_both_directions() -> None:
    leaks = count_leaks(with_rules=False, clouds=10)
    assert leaks.strangers > 100
    assert leaks.strays > 100
