# SPDX-License-Identifier: Apache-2.0
"""What the steps of workflows may use, handed in by the composition root and faked in tests."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from kilonova.claims.claimer import Claimer
from kilonova.db.database import Database
from kilonova.db.workflows import WorkflowRow
from kilonova.model.quota import NO_LIMITS, Limits


@dataclass(frozen=True, slots=True)
class Services:
    """``owner``: this process. ``limits``: the configured quotas, which hold where nobody has set others.

    ``begin``: has stored workflows of this process go on in the background.
    """

    database: Database
    claimer: Claimer
    owner: str
    max_attempts: int
    begin: Callable[[Sequence[WorkflowRow]], None]
    limits: Limits = field(default_factory=lambda: NO_LIMITS)
