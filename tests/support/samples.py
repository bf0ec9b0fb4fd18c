# SPDX-License-Identifier: Apache-2.0
"""How much is tried of what could be tried for hours: a sample in `make test`, all of it in targets of its own."""

import os
from typing import TypeVar

_T = TypeVar("_T")

IS_WHOLE = bool(os.environ.get("KILONOVA_WHOLE"))


def sampled(whole: _T, *, sample: _T) -> _T:
    """Return how many examples, rounds or requests a test tries, or which: a sample unless everything is asked for."""
    return whole if IS_WHOLE else sample
