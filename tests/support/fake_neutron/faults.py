# SPDX-License-Identifier: Apache-2.0
"""Faults of the fake Neutron's next calls, and the record of all calls."""

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum

from kilonova.errors import Conflict, KilonovaError, Unavailable


class Fault(StrEnum):
    """What happens to a call."""

    LOST = "lost"
    """The request is not carried out, and there is no response."""

    LATE = "late"
    """The request is carried out, but the response does not arrive."""

    TWICE = "twice"
    """The request is carried out twice, as by a proxy that repeats it; the second response arrives."""

    CONFLICT = "409"
    ERROR = "500"


@dataclass
class Faults:
    """Planned faults, each for the next call that matches.

    ``calls``: all calls so far, such as ``POST ports`` or ``PUT ports/bindings/activate``.
    """

    calls: list[str] = field(default_factory=list)
    _planned: list[tuple[str, Fault]] = field(default_factory=list)

    def plan(self, call: str, fault: Fault, times: int = 1) -> None:
        """Let the next calls fail. ``call``: such as ``POST ports``, ``POST`` for every kind, or empty for all."""
        self._planned += [(call, fault)] * times

    def count(self, call: str = "") -> int:
        """Return the number of calls so far whose name begins with ``call``."""
        return sum(name.startswith(call) for name in self.calls)

    def counts(self) -> dict[str, int]:
        """Return call → number."""
        return dict(Counter(self.calls))

    def take(self, call: str) -> Fault | None:
        """Record a call and return its fault."""
        self.calls.append(call)
        for planned in self._planned:
            if call.startswith(planned[0]):
                self._planned.remove(planned)
                return planned[1]
        return None


def error_of(fault: Fault) -> KilonovaError | None:
    """Return the error that a call raises before it is carried out."""
    match fault:
        case Fault.LOST:
            return Unavailable("The network service cannot be reached.")
        case Fault.CONFLICT:
            return Conflict("There was a conflict when trying to complete your request.")
        case Fault.ERROR:
            return Unavailable("The network service answered 500.", status=500)
    return None
