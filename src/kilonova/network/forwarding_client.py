# SPDX-License-Identifier: Apache-2.0
"""Base class of network clients that forward calls to another client, and change some of the calls."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

from kilonova.network.client import NetworkClient, Resource


class ForwardingClient:
    """A ``NetworkClient`` that forwards each call to ``client``. Subclasses override the methods that they change."""

    def __init__(self, client: NetworkClient) -> None:
        self._client = client

    def _forwarding(self) -> AbstractContextManager[None]:
        """Return the context in which one call is forwarded."""
        return nullcontext()

    def list(self, kind: str, *, token: str | None = None, **filters: object) -> Sequence[Resource]:
        with self._forwarding():
            return self._client.list(kind, token=token, **filters)

    def show(self, kind: str, resource_id: str, *, token: str | None = None) -> Resource:
        with self._forwarding():
            return self._client.show(kind, resource_id, token=token)

    def create(self, kind: str, values: Resource, *, token: str | None = None) -> Resource:
        with self._forwarding():
            return self._client.create(kind, values, token=token)

    def update(
        self, kind: str, resource_id: str, values: Resource, *, token: str | None = None, revision: int | None = None
    ) -> Resource:
        with self._forwarding():
            return self._client.update(kind, resource_id, values, token=token, revision=revision)

    def delete(self, kind: str, resource_id: str, *, token: str | None = None) -> None:
        with self._forwarding():
            self._client.delete(kind, resource_id, token=token)

    def call(self, method: str, path: str, body: Resource | None = None, *, token: str | None = None) -> Resource:
        with self._forwarding():
            return self._client.call(method, path, body, token=token)
