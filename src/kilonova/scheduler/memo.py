# SPDX-License-Identifier: Apache-2.0
"""Cache of results computed from the columns that snapshots of the host table share."""

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")
_LIMIT = 256


class Memo:
    """Cache of results. A change of the shared columns replaces the cache.

    It keeps the newest ``_LIMIT`` results. Arrays are set read-only, because all callers get the same array.
    """

    def __init__(self) -> None:
        self._answers: dict[Hashable, Any] = {}

    def get(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Return the cached result of ``key``, or compute it.

        ``key`` must contain every input of ``compute`` besides the shared columns.
        """
        try:
            answer: T = self._answers[key]
        except KeyError:
            answer = compute()
            if isinstance(answer, np.ndarray):
                answer.setflags(write=False)
            if len(self._answers) >= _LIMIT:
                self._answers.pop(next(iter(self._answers)), None)
            self._answers[key] = answer
        return answer
