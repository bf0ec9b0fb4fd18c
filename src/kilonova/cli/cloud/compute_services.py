# SPDX-License-Identifier: Apache-2.0
"""Compute services of a running cloud, for commands: found by host, disabled, enabled."""

from collections.abc import Sequence
from typing import Any

from kilonova.cli.cloud.options import Api, WritableApi
from kilonova.errors import InvalidRequest

_COMPUTE, _VERSION = "compute", "2.53"


def service_of(cloud: Api, host: str) -> dict[str, Any]:
    """Return the compute service of a host. Raises: InvalidRequest if there is none."""
    query = {"host": host, "binary": "nova-compute"}
    found: list[dict[str, Any]] = cloud.get(_COMPUTE, "/os-services", _VERSION, **query)["services"]
    if not found:
        raise InvalidRequest(f"compute host {host} could not be found")
    return found[0]


def disable(cloud: WritableApi, hosts: Sequence[str], reason: str) -> None:
    """Disable hosts, after all of them were found. A host that is disabled already keeps its reason.

    Raises: InvalidRequest.
    """
    for service in [service_of(cloud, host) for host in hosts]:
        if service["status"] == "enabled":
            _set(cloud, service, {"status": "disabled", "disabled_reason": reason})


def enable(cloud: WritableApi, hosts: Sequence[str]) -> list[str]:
    """Enable hosts, after all of them were found; return their names. Raises: InvalidRequest."""
    services = [service_of(cloud, host) for host in hosts]
    for service in services:
        _set(cloud, service, {"status": "enabled"})
    return [service["host"] for service in services]


def _set(cloud: WritableApi, service: dict[str, Any], values: dict[str, str]) -> None:
    cloud.call("PUT", _COMPUTE, f"/os-services/{service['id']}", _VERSION, json=values)
