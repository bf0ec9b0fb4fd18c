# SPDX-License-Identifier: Apache-2.0
"""Who is told of decisions and of claims that lost a race, to count them."""

from collections.abc import Callable
from dataclasses import dataclass


def _nobody(*_: object) -> None:
    """Tell nobody."""


@dataclass(frozen=True, slots=True)
class ClaimObservers:
    """``decided``: for so many servers, within so many seconds. ``lost``: a claim lost its race.

    Called on the threads that decide, so they must be quick.
    """

    decided: Callable[[int, float], None] = _nobody
    lost: Callable[[], None] = _nobody
