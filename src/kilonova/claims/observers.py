# SPDX-License-Identifier: Apache-2.0
"""Callbacks for decisions, lost claims and requests, for metrics and notifications."""

from collections.abc import Callable, Mapping

from kilonova.model.request_spec import RequestSpec
from kilonova.records import dataclass


def _nobody(*_: object) -> None:
    """Ignore the event."""


@dataclass(frozen=True, slots=True)
class ClaimObservers:
    """Callbacks for the events of scheduling requests.

    ``decided``: a decision was made; arguments: number of servers, and seconds. ``lost``: a claim lost a race.
    ``sought``: a scheduling request starts. ``found``: all servers of a scheduling request have a host. ``removed``:
    the first decision of a request is recorded; argument: rule → number of hosts that it removed. The callbacks run on
    the threads that decide, without the decision lock, and must be quick.
    """

    decided: Callable[[int, float], None] = _nobody
    lost: Callable[[], None] = _nobody
    sought: Callable[[RequestSpec], None] = _nobody
    found: Callable[[RequestSpec], None] = _nobody
    removed: Callable[[Mapping[str, int]], None] = _nobody
