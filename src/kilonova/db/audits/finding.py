# SPDX-License-Identifier: Apache-2.0
"""What an audit finds."""

from collections.abc import Callable
from dataclasses import dataclass, field

from kilonova.db.core.transaction import Transaction


@dataclass(frozen=True, slots=True)
class Finding:
    """One inconsistency: of which ``kind``, ``where``, ``what`` is there, ``why`` that is wrong, what mends it.

    ``mend`` raises KilonovaError when that is not possible.
    """

    kind: str
    where: str
    what: str
    why: str
    remedy: str
    mend: Callable[[Transaction], None] = field(repr=False, compare=False)
