# SPDX-License-Identifier: Apache-2.0
"""Interface of the network service: generic calls on the resources of Neutron's API v2.0.

:class:`~kilonova.network.neutron.Neutron` implements it by HTTP; tests use an implementation in memory. All other
modules of this package are functions of this interface, so that they need no HTTP in tests.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

#: A resource of the network service, as in the JSON of its API.
Resource = Mapping[str, Any]


class NetworkClient(Protocol):
    """Calls to the network service. They block, up to the configured time limit.

    ``kind``: collection in the URL, such as ``ports``, ``networks``, ``security-groups`` or ``floatingips``.
    ``token``: token of the user whose rights apply; the service token is sent along. None: Kilonova's own service user.
    All methods raise: NotFound (404), InvalidRequest (400), Forbidden (403; OverQuota if the message names a quota),
    Conflict (409), Unavailable (401, 5xx, no answer; the request may have been carried out). The messages are the
    service's own. ``fields["type"]`` of an error is Neutron's name of the error, such as ``IpAddressInUse``, if the
    response has one; ``fields["status"]`` of Unavailable is the status of the response, if there was one.
    """

    def list(self, kind: str, *, token: str | None = None, **filters: object) -> Sequence[Resource]:
        """Return the resources that match all filters. A filter value may be a sequence: any of its values matches.

        ``fields``: names of the attributes to return. All pages are read.
        """

    def show(self, kind: str, resource_id: str, *, token: str | None = None) -> Resource:
        """Return one resource."""

    def create(self, kind: str, values: Resource, *, token: str | None = None) -> Resource:
        """Create a resource and return it. The request is never repeated by the client itself."""

    def update(
        self, kind: str, resource_id: str, values: Resource, *, token: str | None = None, revision: int | None = None
    ) -> Resource:
        """Change attributes of a resource and return the resource.

        ``revision``: the ``revision_number`` that the resource must still have; otherwise ConcurrentUpdate is raised.
        """

    def delete(self, kind: str, resource_id: str, *, token: str | None = None) -> None:
        """Delete a resource."""

    def call(self, method: str, path: str, body: Resource | None = None, *, token: str | None = None) -> Resource:
        """Send any other request, such as ``PUT /ports/{id}/bindings/{host}/activate``; return the response's JSON.

        ``path``: path below ``/v2.0``, with a leading slash. An empty response is an empty mapping.
        """
