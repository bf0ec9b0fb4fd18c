# SPDX-License-Identifier: Apache-2.0
"""A network client that lets only some threads of the API wait for the network service.

::

    call ──▶ a permit is free ──▶ sent
         ├─▶ calls have begun or ended within the last second ──▶ wait for a permit, until a second after that
         └─▶ refused, so that the other threads serve requests that need no network service
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from kilonova.errors import Unavailable
from kilonova.network.client import NetworkClient, Resource

_PATIENCE_S = 1.0


class LimitedClient:
    """A ``NetworkClient`` in front of another one. Thread-safe.

    ``at_once``: number of calls at the same time. ``patience_s``: seconds that further calls wait after the last call
    has begun or ended. A call that is not sent raises Unavailable.
    """

    def __init__(
        self,
        client: NetworkClient,
        at_once: int,
        patience_s: float = _PATIENCE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._permits = threading.BoundedSemaphore(at_once)
        self._patience_s = patience_s
        self._clock = clock
        #: Clock time of the last begin or end of a call; a race between two threads does no harm.
        self._moved_at = clock()

    def list(self, kind: str, *, token: str | None = None, **filters: object) -> Sequence[Resource]:
        with self._permit():
            return self._client.list(kind, token=token, **filters)

    def show(self, kind: str, resource_id: str, *, token: str | None = None) -> Resource:
        with self._permit():
            return self._client.show(kind, resource_id, token=token)

    def create(self, kind: str, values: Resource, *, token: str | None = None) -> Resource:
        with self._permit():
            return self._client.create(kind, values, token=token)

    def update(
        self, kind: str, resource_id: str, values: Resource, *, token: str | None = None, revision: int | None = None
    ) -> Resource:
        with self._permit():
            return self._client.update(kind, resource_id, values, token=token, revision=revision)

    def delete(self, kind: str, resource_id: str, *, token: str | None = None) -> None:
        with self._permit():
            self._client.delete(kind, resource_id, token=token)

    def call(self, method: str, path: str, body: Resource | None = None, *, token: str | None = None) -> Resource:
        with self._permit():
            return self._client.call(method, path, body, token=token)

    @contextmanager
    def _permit(self) -> Iterator[None]:
        """Context of one call. Raises: Unavailable."""
        left = self._moved_at + self._patience_s - self._clock()
        if not self._permits.acquire(timeout=max(left, 0.0)):
            raise Unavailable("Too many requests wait for the network service.")
        self._moved_at = self._clock()
        try:
            yield
        finally:
            self._moved_at = self._clock()
            self._permits.release()
