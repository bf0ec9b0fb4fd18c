# SPDX-License-Identifier: Apache-2.0
"""A network client that changes nothing while another control process may have taken over the work of this one.

Both processes would create a port for the same server: the other one looks for the ports of the server before this one
has created its port.
"""

from collections.abc import Callable

from kilonova.errors import Unavailable
from kilonova.network.client import NetworkClient, Resource
from kilonova.network.forwarding_client import ForwardingClient


class LeasedClient(ForwardingClient):
    """A client that sends the changes of Kilonova's own user only while its process may act.

    Requests that read, and requests of users, are always sent. ``may_act``: returns whether the process holds its
    lease. A call that is not sent raises Unavailable.
    """

    def __init__(self, client: NetworkClient, may_act: Callable[[], bool]) -> None:
        super().__init__(client)
        self._may_act = may_act

    def create(self, kind: str, values: Resource, *, token: str | None = None) -> Resource:
        self._require_lease(token)
        return super().create(kind, values, token=token)

    def update(
        self, kind: str, resource_id: str, values: Resource, *, token: str | None = None, revision: int | None = None
    ) -> Resource:
        self._require_lease(token)
        return super().update(kind, resource_id, values, token=token, revision=revision)

    def delete(self, kind: str, resource_id: str, *, token: str | None = None) -> None:
        self._require_lease(token)
        super().delete(kind, resource_id, token=token)

    def call(self, method: str, path: str, body: Resource | None = None, *, token: str | None = None) -> Resource:
        if method != "GET":
            self._require_lease(token)
        return super().call(method, path, body, token=token)

    def _require_lease(self, token: str | None) -> None:
        if token is None and not self._may_act():
            raise Unavailable("This process has lost its lease; other processes may have taken over its work.")
