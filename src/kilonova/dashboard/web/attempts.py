# SPDX-License-Identifier: Apache-2.0
"""Throttle of sign-in attempts, by account and by client address."""

from collections import OrderedDict
from collections.abc import Callable, Hashable

#: Maximum number of accounts and addresses whose failures are remembered.
_MOST = 10_000
#: A client address may fail as often as this many accounts.
_ADDRESS_FACTOR = 4


class Attempts:
    """Counts failed attempts within ``window_s`` seconds. ``most``: failures of one account before it has to wait."""

    def __init__(self, most: int, window_s: float, clock: Callable[[], float]) -> None:
        self._most = most
        self._window_s = window_s
        self._clock = clock
        self._failures: OrderedDict[Hashable, list[float]] = OrderedDict()

    def wait_s(self, account: str, address: str) -> float:
        """Return the seconds until the next attempt is allowed; 0 if it is allowed now."""
        return max(
            self._wait_of(("account", account), self._most),
            self._wait_of(("address", address), self._most * _ADDRESS_FACTOR),
        )

    def fail(self, account: str, address: str) -> None:
        """Count a failed attempt."""
        for key in (("account", account), ("address", address)):
            self._failures[key] = [*self._recent(key), self._clock()]
            self._failures.move_to_end(key)
        while len(self._failures) > _MOST:
            self._failures.popitem(last=False)

    def succeed(self, account: str) -> None:
        """Forget the failed attempts of an account."""
        self._failures.pop(("account", account), None)

    def _wait_of(self, key: Hashable, most: int) -> float:
        recent = self._recent(key)
        return max(0.0, recent[-most] + self._window_s - self._clock()) if len(recent) >= most else 0.0

    def _recent(self, key: Hashable) -> list[float]:
        since = self._clock() - self._window_s
        return [at for at in self._failures.get(key, ()) if at > since]
