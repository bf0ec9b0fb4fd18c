# SPDX-License-Identifier: Apache-2.0
"""Sampling of long test loops: `make test` runs a sample, targets of their own run everything."""

import os
from typing import TypeVar

_T = TypeVar("_T")

IS_WHOLE = bool(os.environ.get("KILONOVA_WHOLE"))


def sampled(whole: _T, *, sample: _T) -> _T:
    """Return the number of examples, or the selection, that a test tries: a sample by default, or everything."""
    return whole if IS_WHOLE else sample
