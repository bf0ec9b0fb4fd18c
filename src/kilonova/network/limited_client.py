# SPDX-License-Identifier: Apache-2.0
"""A network client that lets only some threads of the API wait for the network service.

::

    call ──▶ a permit is free ──▶ sent
         ├─▶ calls have begun or ended within the last second ──▶ wait for a permit, until a second after that
         └─▶ refused, so that the other threads serve requests that need no network service
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from kilonova.errors import Unavailable
from kilonova.network.client import NetworkClient
from kilonova.network.forwarding_client import ForwardingClient

_PATIENCE_S = 1.0


class LimitedClient(ForwardingClient):
    """A client that forwards a limited number of calls at the same time. Thread-safe.

    ``at_once``: number of calls at the same time. ``patience_s``: seconds that further calls wait after the last call
    has begun or ended. A call that is not sent raises Unavailable.
    """

    def __init__(self, client: NetworkClient, at_once: int, patience_s: float = _PATIENCE_S) -> None:
        super().__init__(client)
        self._permits = threading.BoundedSemaphore(at_once)
        self._patience_s = patience_s
        #: Time at which a call last began or ended; a race between two threads does no harm.
        self._moved_at = time.monotonic()

    @contextmanager
    def _forwarding(self) -> Iterator[None]:
        """Hold a permit during one call. Raises: Unavailable."""
        left = self._moved_at + self._patience_s - time.monotonic()
        if not self._permits.acquire(timeout=max(left, 0.0)):
            raise Unavailable("Too many requests wait for the network service.")
        self._moved_at = time.monotonic()
        try:
            yield
        finally:
            self._moved_at = time.monotonic()
            self._permits.release()
