# SPDX-License-Identifier: Apache-2.0
"""How many steps one request may search for candidates, so that no request keeps a processor, or a lock, for long."""

from collections.abc import Callable

from kilonova.errors import SearchTooLarge

#: Steps in one tree that cost nothing: almost every search ends within them, however many trees there are.
FREE_STEPS = 64
#: Steps for a request that nobody has set a limit for: about half a second.
DEFAULT_STEPS = 250_000


def _nothing() -> None:
    pass


class SearchBudget:
    """Steps that are left for one request in all trees together.

    ``steps``: None for any number. ``check``: asked for each tree, and may end the search by raising.
    """

    def __init__(self, steps: int | None = DEFAULT_STEPS, check: Callable[[], None] = _nothing) -> None:
        self._steps = steps
        self._spent = 0
        self.check = check

    def spend(self, steps: int) -> None:
        """Count steps. Raises: SearchTooLarge when there are none left."""
        self._spent += steps
        if self._steps is not None and self._spent > self._steps:
            raise SearchTooLarge(
                f"The search for allocation candidates was given up after {self._steps} steps, without an answer: ask"
                " for fewer request groups, name a tree or aggregates, or ask for fewer candidates."
            )
