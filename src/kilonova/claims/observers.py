# SPDX-License-Identifier: Apache-2.0
"""Callbacks for decisions, lost claims and requests, for metrics and notifications."""

from collections.abc import Callable
from dataclasses import dataclass

from kilonova.model.request_spec import RequestSpec


def _nobody(*_: object) -> None:
    """Ignore the event."""


@dataclass(frozen=True, slots=True)
class ClaimObservers:
    """``decided``: number of servers and seconds of a decision. ``lost``: a claim lost a race.

    ``sought``: a scheduling request starts; ``found``: all its servers have a host.
    Called on the deciding threads without the lock; they must be quick.
    """

    decided: Callable[[int, float], None] = _nobody
    lost: Callable[[], None] = _nobody
    sought: Callable[[RequestSpec], None] = _nobody
    found: Callable[[RequestSpec], None] = _nobody
