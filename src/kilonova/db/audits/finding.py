# SPDX-License-Identifier: Apache-2.0
"""The result type of audit checks."""

from collections.abc import Callable
from dataclasses import field

from kilonova.db.core.transaction import Transaction
from kilonova.records import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """One inconsistency.

    ``kind``: the kind of inconsistency. ``where``: the inconsistent object. ``what``: the stored state. ``why``: the
    reason why that state is wrong. ``remedy``: the effect of ``repair``. ``repair``: repairs the inconsistency; raises
    KilonovaError if that is not possible.
    """

    kind: str
    where: str
    what: str
    why: str
    remedy: str
    repair: Callable[[Transaction], None] = field(repr=False, compare=False)
