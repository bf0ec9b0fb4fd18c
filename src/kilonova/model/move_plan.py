# SPDX-License-Identifier: Apache-2.0
"""Choices of a user who requests a plan of moves."""

from collections.abc import Mapping
from enum import StrEnum

from kilonova.model.server_migration import MoveKind


class How(StrEnum):
    """The kinds of moves that a plan may contain. ``EITHER``: a live migration where it is possible."""

    LIVE = "live"
    COLD = "cold"
    EITHER = "either"

    @property
    def kinds(self) -> tuple[MoveKind, ...]:
        return _KINDS[self]


_KINDS: Mapping[How, tuple[MoveKind, ...]] = {
    How.LIVE: (MoveKind.LIVE_MIGRATE,),
    How.COLD: (MoveKind.COLD_MIGRATE,),
    How.EITHER: (MoveKind.LIVE_MIGRATE, MoveKind.COLD_MIGRATE),
}


class Objective(StrEnum):
    """What to improve.

    ``SPREAD``: equal shares of CPUs, memory and disks. ``LEVEL``: equal shares of one resource within each aggregate.
    ``PACK``: more hosts without servers. ``MEND``: fewer servers that violate a rule.
    """

    SPREAD = "spread"
    LEVEL = "level"
    PACK = "pack"
    MEND = "mend"
