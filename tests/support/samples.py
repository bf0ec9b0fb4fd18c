# SPDX-License-Identifier: Apache-2.0
"""How much is tried of what could be tried for hours: a sample in `make test`, all of it in targets of its own."""

import os

IS_WHOLE = bool(os.environ.get("KILONOVA_WHOLE"))


def sampled(whole: int, *, sample: int) -> int:
    """Return how many examples, rounds or requests a test tries: ``sample`` of them unless everything is asked for."""
    return whole if IS_WHOLE else sample
