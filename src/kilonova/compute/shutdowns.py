# SPDX-License-Identifier: Apache-2.0
"""Guests of one host that were asked to shut down, and how long they may take."""

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from time import monotonic
from typing import Protocol

from kilonova.compute.virt.base import AgentStopsError


@dataclass(frozen=True, slots=True)
class ShutdownTimes:
    """Seconds after which a guest that does not shut down is powered off.

    ``stop_s``: when it is stopped, ``shutdown_timeout``. ``reboot_s``: in a soft reboot, ``wait_soft_reboot_seconds``.
    """

    stop_s: float = 60.0
    reboot_s: float = 120.0


class ShutdownOrder(Protocol):
    """An order that begins with a shutdown. ``timeout_s``: how long it may take, None: as long as its host says."""

    @property
    def instance_uuid(self) -> str: ...

    @property
    def timeout_s(self) -> float | None: ...


class Patience:
    """How long one guest may take. Implements ``ShutdownPatience``."""

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
        """Wait no longer."""
        self._is_over.set()

    def stop(self) -> None:
        """Leave the guest as it is."""
        self._is_stopping = True
        self._is_over.set()


class Shutdowns:
    """Those of one host, at most one for an instance, since orders for one follow each other.

    ``is_urgent``: whether something waits already that is not to wait for the guest of an instance.
    """

    def __init__(self, times: ShutdownTimes, is_urgent: Callable[[str], bool]) -> None:
        self.times = times
        self._is_urgent = is_urgent
        self._lock = threading.Lock()
        self._waiting: dict[str, Patience] = {}
        self._is_stopping = False

    def patience_of(self, order: ShutdownOrder) -> AbstractContextManager[Patience]:
        """Return the same for a guest that is not rebooted. Raises: AgentStopsError."""
        return self.patience(order.instance_uuid, self.times.stop_s if order.timeout_s is None else order.timeout_s)

    @contextmanager
    def patience(self, instance_uuid: str, limit_s: float) -> Iterator[Patience]:
        """Yield how long a guest may take that is shut down within the block. Raises: AgentStopsError."""
        patience = Patience(limit_s)
        with self._lock:
            if self._is_stopping:
                raise AgentStopsError
            self._waiting[instance_uuid] = patience
        if self._is_urgent(instance_uuid):  # asked only now, so that what comes from now on finds it
            patience.end()
        try:
            yield patience
        finally:
            with self._lock:
                del self._waiting[instance_uuid]

    def cut_short(self, instance_uuid: str) -> None:
        """Have a guest powered off now that is waited for, if one is: something else is to be done with it."""
        with self._lock:
            patience = self._waiting.get(instance_uuid)
        if patience is not None:
            patience.end()

    def stop(self) -> None:
        """Leave all of them as they are, and begin none."""
        with self._lock:
            self._is_stopping = True
            for patience in self._waiting.values():
                patience.stop()
