# SPDX-License-Identifier: Apache-2.0
"""Codec for workflow facts: frozen dataclasses ↔ JSON with a version.

Control processes of different releases may share a journal. So unknown fields are ignored, and missing fields get their
defaults. Any other change of the format needs a new version, and a function that upgrades facts of the previous one.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from kilonova.decoding import convert

F = TypeVar("F")
#: Function that converts stored facts from one version to the next.
Upgrade = Callable[[Mapping[str, Any]], Mapping[str, Any]]
_VERSION = "version"


class UnknownFactsError(Exception):
    """Stored facts are damaged or were written by a later release."""


def encode(facts: object, upgrades: Sequence[Upgrade] = ()) -> dict[str, Any]:
    """Return the stored form of facts. Their version is the number of upgrades plus one."""
    stored: dict[str, Any] = msgspec.to_builtins(facts)
    return {_VERSION: 1 + len(upgrades), **stored}


def decode(stored: Mapping[str, Any], kind: type[F], upgrades: Sequence[Upgrade] = ()) -> F:
    """Return the facts that :func:`encode` stored, in this release or an earlier one. Raises: UnknownFactsError."""
    version = stored.get(_VERSION)
    newest = 1 + len(upgrades)
    if not isinstance(version, int) or not 1 <= version <= newest:
        raise UnknownFactsError(f"Facts of version {version}; this release supports versions 1 to {newest}.")
    try:
        for upgrade in upgrades[version - 1 :]:
            stored = upgrade(stored)
        return convert({name: value for name, value in stored.items() if name != _VERSION}, kind)
    except (LookupError, TypeError, ValueError) as error:  # msgspec raises a ValidationError, which is a ValueError
        raise UnknownFactsError(f"Facts of version {version} cannot be read: {error!r}") from error
