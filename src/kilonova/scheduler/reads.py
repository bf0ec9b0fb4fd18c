# SPDX-License-Identifier: Apache-2.0
"""Declarations of the extra specs, image properties, metadata keys and hints that a rule reads.

Built-in rules declare them as ``reads``, so that settings which no rule reads can be reported to operators. The
declaration is optional for third-party rules; a rule without it is assumed to read everything.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum

from kilonova.records import dataclass


class Elsewhere(StrEnum):
    """Places where a name can be in use: flavors, images, aggregates or hosts.

    Some rules read a name in one place only if the name is also in use in another place. Example: an image property is
    read only if aggregates have metadata of the same name. The value of a member is the text that is shown for a name
    which is not in use in that place.
    """

    EXTRA_SPECS = "no flavor asks for it"
    IMAGE_PROPERTIES = "no image has it"
    METADATA = "no aggregate has it"
    HOST_FACTS = "no host reports it"


InUse = Mapping[Elsewhere, frozenset[str]]


@dataclass(frozen=True, slots=True)
class Keys:
    """A set of names: listed names, names with one of the prefixes, and names that a function of ``matching`` accepts.

    ``beginning``, ``elsewhere``: the set also contains every name that begins with ``beginning`` and is in use in one
    of the places ``elsewhere``.
    """

    names: frozenset[str] = frozenset()
    prefixes: tuple[str, ...] = ()
    matching: tuple[Callable[[str], bool], ...] = ()
    elsewhere: tuple[Elsewhere, ...] = ()
    beginning: str = ""

    def has(self, key: str, in_use: InUse) -> bool:
        """Tell whether the set contains ``key``. ``in_use``: the names in use in each place."""
        return self.always_has(key) or any(key in in_use[place] for place in self.places_of(key))

    def always_has(self, key: str) -> bool:
        """Tell whether the set contains ``key`` regardless of the names in use."""
        return key in self.names or key.startswith(self.prefixes) or any(match(key) for match in self.matching)

    def __or__(self, other: "Keys") -> "Keys":
        """Return the union of the two sets. At most one of the two may use ``elsewhere``."""
        dependent = other if other.elsewhere else self
        return Keys(
            self.names | other.names,
            self.prefixes + other.prefixes,
            self.matching + other.matching,
            dependent.elsewhere,
            dependent.beginning,
        )

    def places_of(self, key: str) -> tuple[Elsewhere, ...]:
        """Return the places whose use of ``key`` counts: the key is read if it is in use in at least one of them."""
        return self.elsewhere if key.startswith(self.beginning) else ()


NO_KEYS = Keys()
ALL_KEYS = Keys(prefixes=("",))


def names(*keys: str) -> Keys:
    """Return the set of exactly these names."""
    return Keys(names=frozenset(keys))


def is_unscoped(key: str) -> bool:
    """Tell whether an extra spec has no scope (no colon)."""
    return ":" not in key


@dataclass(frozen=True, slots=True)
class Reads:
    """The names that a rule reads.

    ``extra_specs``: keys in the flavor. ``properties``: keys in the image, by their current names. ``metadata``: keys
    in aggregates. ``hints``: names of scheduler hints in the request.
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
    """Return the ``reads`` of a rule, or None if its class declares none and so may read anything.

    An inherited ``reads`` is ignored, because the class may override methods so that they read more names.
    """
    reads = getattr(rule, "reads", None) if "reads" in vars(type(rule)) else None
    return reads if isinstance(reads, Reads) else None
