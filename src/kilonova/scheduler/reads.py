# SPDX-License-Identifier: Apache-2.0
"""What a rule reads of a request and of the metadata of aggregates.

Every rule says it next to its code, as ``reads``; so what an operator wrote and nobody reads can be named. A rule from
outside may say it too. One that does not may read anything.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum


class Elsewhere(StrEnum):
    """Where names are in use. Some rules read a name only when it is there too; the value says that it is not."""

    EXTRA_SPECS = "no flavor asks for it"
    IMAGE_PROPERTIES = "no image has it"
    METADATA = "no aggregate has it"
    HOST_FACTS = "no host reports it"


InUse = Mapping[Elsewhere, frozenset[str]]


@dataclass(frozen=True, slots=True)
class Keys:
    """Some names: the listed ones, those that begin in one of these ways, those of which a function says so.

    ``elsewhere``: those that are in use there as well, as far as they begin with ``beginning``.
    """

    names: frozenset[str] = frozenset()
    prefixes: tuple[str, ...] = ()
    matching: tuple[Callable[[str], bool], ...] = ()
    elsewhere: tuple[Elsewhere, ...] = ()
    beginning: str = ""

    def has(self, key: str, in_use: InUse) -> bool:
        """Tell whether the name is one of these, given which names are in use."""
        return self.always_has(key) or any(key in in_use[place] for place in self.places_of(key))

    def always_has(self, key: str) -> bool:
        """Tell whether the name is one of these whatever is in use."""
        return key in self.names or key.startswith(self.prefixes) or any(match(key) for match in self.matching)

    def __or__(self, other: "Keys") -> "Keys":
        """Return the names of both. At most one of them may depend on what is in use elsewhere."""
        dependent = other if other.elsewhere else self
        return Keys(
            self.names | other.names,
            self.prefixes + other.prefixes,
            self.matching + other.matching,
            dependent.elsewhere,
            dependent.beginning,
        )

    def places_of(self, key: str) -> tuple[Elsewhere, ...]:
        """Return where the name would have to be in use to be one of these."""
        return self.elsewhere if key.startswith(self.beginning) else ()


NO_KEYS = Keys()
ALL_KEYS = Keys(prefixes=("",))


def names(*keys: str) -> Keys:
    """Return exactly these names."""
    return Keys(names=frozenset(keys))


def is_unscoped(key: str) -> bool:
    """Tell whether an extra spec has no scope."""
    return ":" not in key


@dataclass(frozen=True, slots=True)
class Reads:
    """The names that a rule looks at, of each kind.

    ``extra_specs``: of the flavor. ``properties``: of the image, by today's names. ``metadata``: of aggregates.
    ``hints``: of the request.
    """

    extra_specs: Keys = NO_KEYS
    properties: Keys = NO_KEYS
    metadata: Keys = NO_KEYS
    hints: Keys = NO_KEYS

    def __or__(self, other: "Reads") -> "Reads":
        return Reads(
            self.extra_specs | other.extra_specs,
            self.properties | other.properties,
            self.metadata | other.metadata,
            self.hints | other.hints,
        )


NOTHING = Reads()


def reads_of(rule: object) -> Reads | None:
    """Return what the class of a rule says that it reads; None when it says nothing, so it may read anything.

    What a class inherits does not count: it may override everything else.
    """
    reads = getattr(rule, "reads", None) if "reads" in vars(type(rule)) else None
    return reads if isinstance(reads, Reads) else None
