# SPDX-License-Identifier: Apache-2.0
"""The one codec of what workflows remember: frozen dataclasses ↔ JSON with a version.

A field that this release does not know is ignored, one that is missing gets its default: releases share a journal. What
cannot be said that way is a new version, with a function that brings the one before up.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

F = TypeVar("F")
#: Turns the stored form of one version into that of the next.
Upgrade = Callable[[Mapping[str, Any]], Mapping[str, Any]]
_VERSION = "version"


class UnknownFactsError(Exception):
    """Facts were written by a later release, or are damaged."""


def encode(facts: object, upgrades: Sequence[Upgrade] = ()) -> dict[str, Any]:
    """Return facts as they are stored; their version is one more than there are upgrades."""
    stored: dict[str, Any] = msgspec.to_builtins(facts)
    return {_VERSION: 1 + len(upgrades), **stored}


def decode(stored: Mapping[str, Any], kind: type[F], upgrades: Sequence[Upgrade] = ()) -> F:
    """Return the facts that :func:`encode` stored, in this release or an earlier one. Raises: UnknownFactsError."""
    version = stored.get(_VERSION)
    newest = 1 + len(upgrades)
    if not isinstance(version, int) or not 1 <= version <= newest:
        raise UnknownFactsError(f"Facts of version {version}; this release knows versions 1 to {newest}.")
    try:
        for upgrade in upgrades[version - 1 :]:
            stored = upgrade(stored)
        return msgspec.convert({name: value for name, value in stored.items() if name != _VERSION}, kind)
    except (LookupError, TypeError, ValueError) as error:  # also what a validation raises
        raise UnknownFactsError(f"Facts of version {version} cannot be read: {error!r}") from error
