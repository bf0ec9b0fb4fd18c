# SPDX-License-Identifier: Apache-2.0
"""Quota of ports: how many servers of a request a project may still create."""

from collections.abc import Mapping
from typing import Any

from kilonova.errors import NotFound, OverQuota
from kilonova.model.network_request import NetworkRequest
from kilonova.network.client import NetworkClient

_UNLIMITED = -1


def servers_within_quota(
    client: NetworkClient, token: str | None, project_id: str, request: NetworkRequest, count: int
) -> int:
    """Return for how many of ``count`` servers the project may create the requested ports.

    Raises: OverQuota if the project already has more ports than its limit.
    """
    needed = sum(item.port_id is None for item in request.networks)
    if needed == 0:
        return count
    limit, used = _limit_and_use(client, token, project_id)
    if limit == _UNLIMITED:
        return count
    if used > limit:
        raise OverQuota(f"The number of defined ports: {used} is over the limit: {limit}")
    return min(count, (limit - used) // needed)


def require_quota(
    client: NetworkClient, token: str | None, project_id: str, request: NetworkRequest, count: int
) -> None:
    """Refuse a request for ``count`` servers unless the project may create all their ports. Raises: OverQuota."""
    if servers_within_quota(client, token, project_id, request, count) < count:
        raise OverQuota("Maximum number of ports exceeded")


def has_no_port_limit(quota: Mapping[str, Any]) -> bool:
    """Whether a quota of the network service, with or without details, allows any number of ports."""
    port = quota.get("port", _UNLIMITED)
    return (port.get("limit") if isinstance(port, Mapping) else port) == _UNLIMITED


def _limit_and_use(client: NetworkClient, token: str | None, project_id: str) -> tuple[int, int]:
    """Return limit and number of a project's ports, by one request if the network service counts them itself."""
    try:
        details = client.call("GET", f"/quotas/{project_id}/details", token=token)["quota"]["port"]
    except NotFound:
        limit = client.call("GET", f"/quotas/{project_id}", token=token)["quota"].get("port", _UNLIMITED)
        if limit == _UNLIMITED:
            return limit, 0
        return limit, len(client.list("ports", token=token, project_id=project_id, fields=["id"]))
    return details["limit"], details["used"] + details.get("reserved", 0)
