# SPDX-License-Identifier: Apache-2.0
"""Graceful shutdowns of the guests of one host, and their timeouts."""

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from time import monotonic
from typing import Protocol

from kilonova.compute.virt.base import AgentStopsError
from kilonova.records import dataclass


@dataclass(frozen=True, slots=True)
class ShutdownTimes:
    """Seconds after which a guest that has not shut down is powered off.

    ``stop_s``: when a server is stopped; Nova's ``shutdown_timeout``.
    ``reboot_s``: in a soft reboot; Nova's ``wait_soft_reboot_seconds``.
    """

    stop_s: float = 60.0
    reboot_s: float = 120.0


class ShutdownOrder(Protocol):
    """An order that begins with a guest shutdown. ``timeout_s``: shutdown timeout; None for the default of the host."""

    @property
    def instance_uuid(self) -> str: ...

    @property
    def timeout_s(self) -> float | None: ...


class GuestTimeout:
    """The shutdown timeout of one guest. Implements ``ShutdownTimeout``."""

    def __init__(self, limit_s: float) -> None:
        self._until = monotonic() + limit_s
        self._is_over = threading.Event()
        self._is_stopping = False

    def wait(self, seconds: float) -> bool:
        left = self._until - monotonic()
        is_cut_short = self._is_over.wait(max(0.0, min(seconds, left)))
        if self._is_stopping:
            raise AgentStopsError
        return seconds <= left and not is_cut_short

    def end(self) -> None:
        """End the timeout now, so that the driver powers the guest off."""
        self._is_over.set()

    def stop(self) -> None:
        """Make :meth:`wait` raise AgentStopsError, so that the driver leaves the guest as it is."""
        self._is_stopping = True
        self._is_over.set()


class Shutdowns:
    """The running shutdowns of one host, at most one for each instance, since orders for an instance are serialized.

    ``is_urgent``: tells whether a queued order for an instance makes it pointless to wait for the shutdown.
    """

    def __init__(self, times: ShutdownTimes, is_urgent: Callable[[str], bool]) -> None:
        self.times = times
        self._is_urgent = is_urgent
        self._lock = threading.Lock()
        self._waiting: dict[str, GuestTimeout] = {}
        self._is_stopping = False

    def timeout_of(self, order: ShutdownOrder) -> AbstractContextManager[GuestTimeout]:
        """Return a context manager with the timeout for a stop order. Raises: AgentStopsError."""
        return self.timeout(order.instance_uuid, self.times.stop_s if order.timeout_s is None else order.timeout_s)

    @contextmanager
    def timeout(self, instance_uuid: str, limit_s: float) -> Iterator[GuestTimeout]:
        """Yield the timeout of a guest that is shut down within the block. Raises: AgentStopsError."""
        timeout = GuestTimeout(limit_s)
        with self._lock:
            if self._is_stopping:
                raise AgentStopsError
            self._waiting[instance_uuid] = timeout
        # Check the queue after registering the timeout: if an order arrives later, cut_short() ends the timeout.
        if self._is_urgent(instance_uuid):
            timeout.end()
        try:
            yield timeout
        finally:
            with self._lock:
                del self._waiting[instance_uuid]

    def cut_short(self, instance_uuid: str) -> None:
        """End the wait for the shutdown of a guest, if it is shutting down, so that the driver powers it off now."""
        with self._lock:
            timeout = self._waiting.get(instance_uuid)
        if timeout is not None:
            timeout.end()

    def stop(self) -> None:
        """Abandon all running shutdowns and start no more."""
        with self._lock:
            self._is_stopping = True
            for timeout in self._waiting.values():
                timeout.stop()
