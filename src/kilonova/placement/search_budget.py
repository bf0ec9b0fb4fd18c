# SPDX-License-Identifier: Apache-2.0
"""Limit of steps in the search for one request's candidates, so that no request holds a CPU or a lock for long."""

from collections.abc import Callable

from kilonova.errors import SearchTooLarge

#: Number of steps in each tree that do not count against the limit. Almost every search of a tree needs fewer steps.
FREE_STEPS = 64
#: Default limit of search steps per request. That number of steps takes about half a second.
DEFAULT_STEPS = 250_000


def _nothing() -> None:
    pass


class SearchBudget:
    """The remaining search steps of one request, for all trees together.

    ``steps``: the limit; None means unlimited. ``check``: called for each tree; an exception cancels the search.
    """

    def __init__(self, steps: int | None = DEFAULT_STEPS, check: Callable[[], None] = _nothing) -> None:
        self._steps = steps
        self._spent = 0
        self.check = check

    def spend(self, steps: int) -> None:
        """Count steps of the search. Raises: SearchTooLarge, if the limit is exceeded."""
        self._spent += steps
        if self._steps is not None and self._spent > self._steps:
            raise SearchTooLarge(
                f"The search for allocation candidates was given up after {self._steps} steps, without an answer: use"
                " fewer request groups, name a tree or aggregates, or request fewer candidates."
            )
