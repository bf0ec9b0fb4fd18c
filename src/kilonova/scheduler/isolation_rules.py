# SPDX-License-Identifier: Apache-2.0
r"""Isolation rules: they reserve the hosts of aggregates for certain servers, and confine these servers to these hosts.

An aggregate with metadata keys ``kilonova:only`` or ``kilonova:only.SUFFIX`` has a rule. Each key is an alternative: a
list of conditions that must all hold. A server meets the rule if it meets one alternative. Aggregates with the same
alternatives share one rule, regardless of the suffixes; the hosts of all of them are the pool of the rule.

::

    alternative  condition { and condition }
    condition    image.NAME[=VALUE] | spec.NAME[=VALUE] | flavor=VALUE | project=VALUE | trait=VALUE
    VALUE        letters, digits and most signs; any text in double quotes, with \" and \\ as escapes

A server may use a host if and only if the set of rules that the server meets equals the set of rules in whose pools
the host is.
"""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kilonova.errors import InvalidRequest
from kilonova.model.aggregate import Aggregate
from kilonova.model.flavor import Flavor
from kilonova.model.image import Image
from kilonova.records import dataclass
from kilonova.scheduler.reads import Keys, Reads, names
from kilonova.scheduler.resources import required_traits

PREFIX = "kilonova:only"
SYNTAX = "image.NAME[=VALUE], spec.NAME[=VALUE], flavor=VALUE, project=VALUE or trait=VALUE"

_KEY = re.compile(re.escape(PREFIX) + r"(\.[A-Za-z0-9_.-]+)?")
_VALUE = r'"(?:[^"\\]|\\["\\])*"|[^\s"\\,;&|=]+'
_CONDITION = re.compile(
    rf"(?:(?P<of>image|spec)\.(?P<name>[A-Za-z0-9_.:-]+)(?:=(?P<its>{_VALUE}))?"
    rf"|(?P<single>flavor|project|trait)=(?P<is>{_VALUE}))(?=\s|\Z)"
)
_AND = re.compile(r"\s+and\s+")
_ESCAPED = re.compile(r"\\(.)")
_BARE = re.compile(r'[^\s"\\,;&|=]+')
_TRAIT = re.compile(r"[A-Z][A-Z0-9_]{0,254}")


class Candidate(NamedTuple):
    """The properties of a server that the conditions of isolation rules can test."""

    flavor: Flavor
    image: Image | None
    project_id: str


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition of a rule. Names and values are compared exactly.

    ``source``: image, spec, flavor, project or trait. ``name``: the image property or extra spec, else empty.
    ``value``: the required value; None if the property or extra spec only has to exist.
    """

    source: str
    name: str
    value: str | None

    def holds(self, server: Candidate) -> bool:
        """Tell whether the server meets the condition. A server without an image meets no image condition.

        A trait condition holds if the flavor or the image requires the trait, in any request group, or if a requested
        guest feature implies it.
        """
        if self.source == "image":
            return server.image is not None and _has(server.image.properties, self.name, self.value)
        if self.source == "spec":
            return _has(server.flavor.extra_specs, self.name, self.value)
        if self.source == "flavor":
            return server.flavor.name == self.value
        if self.source == "project":
            return server.project_id == self.value
        return self.value in required_traits(server.flavor, server.image)

    @property
    def subject(self) -> str:
        return f"{self.source}.{self.name}" if self.name else self.source

    def __str__(self) -> str:
        return self.subject if self.value is None else f"{self.subject}={_written(self.value)}"


def _has(pairs: Mapping[str, str], name: str, value: str | None) -> bool:
    return name in pairs and (value is None or pairs[name] == value)


def _written(value: str) -> str:
    if _BARE.fullmatch(value):
        return value
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


Alternative = frozenset[Condition]


@dataclass(frozen=True, slots=True)
class Rule:
    """The isolation rule of one or several aggregates. ``broken``: (key, value, error) of invalid metadata.

    A rule with invalid metadata closes its hosts to all servers. Servers that meet one of its valid alternatives are
    still confined to these hosts, so they find no host.
    """

    alternatives: frozenset[Alternative]
    broken: tuple[tuple[str, str, str], ...] = ()

    def is_met(self, server: Candidate) -> bool:
        """Tell whether the server meets the rule and so must use the rule's hosts."""
        return any(all(condition.holds(server) for condition in each) for each in self.alternatives)

    def __str__(self) -> str:
        read = sorted(" and ".join(sorted(map(str, each))) for each in self.alternatives)
        return " | ".join([*read, *(f"{key}={value}" for key, value, _ in self.broken)])


def is_rule_key(key: str) -> bool:
    """Tell whether a metadata key starts like an isolation key.

    Misspelled keys are included, because a typo must not make the hosts available to all servers.
    """
    return key.strip().lower().startswith(PREFIX)


def parse_alternative(key: str, value: str) -> Alternative:
    """Parse one metadata key of a rule and its value. Raises: InvalidRequest, naming the key and the error."""
    if not _KEY.fullmatch(key):
        raise InvalidRequest(
            f"{key} is not an isolation key: use {PREFIX}, or {PREFIX}.SUFFIX for further alternatives.", field=key
        )
    text = value.strip()
    if not text:
        raise InvalidRequest(f"{key}: the rule is empty; a condition is {SYNTAX}.", field=key)
    conditions: set[Condition] = set()
    at = 0
    while True:
        found = _CONDITION.match(text, at)
        if found is None:
            raise InvalidRequest(
                f"{key}: cannot read a condition at {text[at:]!r}; a condition is {SYNTAX}. Put a value with"
                ' special characters in "double quotes".',
                field=key,
            )
        conditions.add(_condition(key, found))
        at = found.end()
        if at == len(text):
            break
        more = _AND.match(text, at)
        if more is None:
            raise InvalidRequest(f"{key}: expected 'and' between conditions at {text[at:].strip()!r}.", field=key)
        at = more.end()
    _require_possible(key, conditions)
    return frozenset(conditions)


def _condition(key: str, found: re.Match[str]) -> Condition:
    if found["of"]:
        return Condition(found["of"], found["name"], _unquoted(found["its"]))
    value = _unquoted(found["is"])
    if not value:
        raise InvalidRequest(f"{key}: {found['single']} is empty.", field=key)
    if found["single"] == "trait" and not _TRAIT.fullmatch(value):
        raise InvalidRequest(f"{key}: {value!r} is not a valid trait name.", field=key)
    return Condition(found["single"], "", value)


def _unquoted(value: str | None) -> str | None:
    return _ESCAPED.sub(r"\1", value[1:-1]) if value and value.startswith('"') else value


def _require_possible(key: str, conditions: set[Condition]) -> None:
    """Raise InvalidRequest if the conditions require two values of one property; two traits are no contradiction."""
    values: dict[str, str] = {}
    for condition in sorted(conditions, key=str):
        value = condition.value
        if value is None or condition.source == "trait":
            continue
        name = condition.subject
        if values.setdefault(name, value) != value:
            raise InvalidRequest(
                f"{key}: {name} cannot be both {values[name]!r} and {value!r}; put alternatives into separate keys"
                f" of the form {PREFIX}.SUFFIX.",
                field=key,
            )


def rule_of(metadata: Mapping[str, str]) -> Rule | None:
    """Return the isolation rule in the metadata of an aggregate, or None if the metadata has no rule."""
    keys = sorted(key for key in metadata if is_rule_key(key))
    if not keys:
        return None
    alternatives: set[Alternative] = set()
    broken: list[tuple[str, str, str]] = []
    for key in keys:
        try:
            alternatives.add(parse_alternative(key, metadata[key]))
        except InvalidRequest as error:
            broken.append((key, metadata[key], error.message))
    return Rule(frozenset(alternatives), tuple(broken))


def reads_of_rules(aggregates: Sequence[Aggregate]) -> Reads:
    """Return the extra specs, image properties and metadata keys that the isolation rules of the aggregates read."""
    rules = [rule for each in aggregates if (rule := rule_of(each.metadata)) is not None]
    conditions = {condition for rule in rules for alternative in rule.alternatives for condition in alternative}

    def of(source: str) -> Keys:
        return names(*(condition.name for condition in conditions if condition.source == source))

    return Reads(extra_specs=of("spec"), properties=of("image"), metadata=Keys(matching=(is_rule_key,)))


@dataclass(frozen=True, slots=True)
class Isolation:
    """The isolation rules of a cloud, compiled for the rows of its host table. A set of rules is a bit mask.

    ``rules``: the distinct rules, in the order of their first aggregates; the n-th rule is bit n.
    ``under``: set of rules → number of the class of hosts to which exactly these rules apply.
    ``class_of``: (H,) class of each host; -1 if a rule with invalid metadata applies to the host.
    ``filed``: project → (bit, alternative) of the alternatives with a condition on this project; None → those without
    a project condition. This index keeps decisions fast in clouds where hundreds of projects have a pool each.
    """

    rules: tuple[Rule, ...]
    filed: Mapping[str | None, Sequence[tuple[int, Alternative]]]
    under: Mapping[int, int]
    class_of: NDArray[np.int32]

    def met_by(self, server: Candidate) -> int:
        """Return the set of rules that the server meets, as a bit mask."""
        met = 0
        for project in (None, server.project_id):
            for bit, alternative in self.filed.get(project, ()):
                if not met & bit and all(condition.holds(server) for condition in alternative):
                    met |= bit
        return met

    def hosts_under(self, rules: int) -> NDArray[np.bool_]:
        """Return the hosts to which exactly these rules apply. ``rules``: a bit mask. Shapes: → (H,)."""
        kind = self.under.get(rules)
        mask: NDArray[np.bool_] = (
            np.zeros(len(self.class_of), dtype=np.bool_) if kind is None else self.class_of == kind
        )
        return mask


def compile_isolation(aggregates: Sequence[Aggregate], membership: NDArray[np.bool_]) -> Isolation | None:
    """Compile the isolation rules of the aggregates, or return None if no aggregate has one.

    Shapes: ``membership`` (A, H).
    """
    numbers: dict[Rule, int] = {}
    under = [0] * membership.shape[1]
    for index, aggregate in enumerate(aggregates):
        rule = rule_of(aggregate.metadata)
        if rule is None:
            continue
        bit = 1 << numbers.setdefault(rule, len(numbers))
        for row in np.flatnonzero(membership[index]).tolist():
            under[row] |= bit
    if not numbers:
        return None
    closed = sum(1 << number for rule, number in numbers.items() if rule.broken)
    classes: dict[int, int] = {}
    class_of = [-1 if bits & closed else classes.setdefault(bits, len(classes)) for bits in under]
    filed: dict[str | None, list[tuple[int, Alternative]]] = {}
    for rule, number in numbers.items():
        for alternative in rule.alternatives:
            project = next((condition.value for condition in alternative if condition.source == "project"), None)
            filed.setdefault(project, []).append((1 << number, alternative))
    return Isolation(tuple(numbers), filed, classes, np.array(class_of, dtype=np.int32))
