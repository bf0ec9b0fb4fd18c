# SPDX-License-Identifier: Apache-2.0
"""Who is told of decisions and of claims that lost a race, to count them, and of what is asked for and found."""

from collections.abc import Callable
from dataclasses import dataclass

from kilonova.model.request_spec import RequestSpec


def _nobody(*_: object) -> None:
    """Tell nobody."""


@dataclass(frozen=True, slots=True)
class ClaimObservers:
    """``decided``: for so many servers, within so many seconds. ``lost``: a claim lost its race.

    ``sought``: hosts are about to be chosen for the servers of a request; ``found``: each of them has one now.
    Called on the threads that decide, not under the lock, so they must be quick.
    """

    decided: Callable[[int, float], None] = _nobody
    lost: Callable[[], None] = _nobody
    sought: Callable[[RequestSpec], None] = _nobody
    found: Callable[[RequestSpec], None] = _nobody
