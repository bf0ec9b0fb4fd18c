# SPDX-License-Identifier: Apache-2.0
"""Ports of all devices in the network service."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from kilonova.deadline import heeding
from kilonova.network.client import NetworkClient
from kilonova.network.port_changes import HOST
from kilonova.network.port_owner import mark_of

_FIELDS = ("id", "device_id", "device_owner", "project_id", "description", "created_at", HOST)
_OF_COMPUTE = "compute:"


@dataclass(frozen=True, slots=True)
class DevicePort:
    """A port with a device. ``is_of_server``: the port shows a compute service as the owner of its device.

    ``created``: Kilonova created the port for this device. ``created_at``: as the network service has it.
    """

    id: str
    device_id: str
    project_id: str
    host: str | None
    created_at: str | None
    is_of_server: bool
    created: bool


def device_ports(client: NetworkClient, ids: Collection[str] | None = None) -> Iterator[DevicePort]:
    """Yield the ports with these ids that have a device; None: all ports that have a device."""
    filters: dict[str, Any] = {} if ids is None else {"id": list(ids)}
    for port in heeding(client.list("ports", fields=_FIELDS, **filters)):
        if device := port["device_id"]:
            yield DevicePort(
                id=port["id"],
                device_id=device,
                project_id=port["project_id"],
                host=port.get(HOST) or None,
                created_at=port.get("created_at"),
                is_of_server=port["device_owner"].startswith(_OF_COMPUTE),
                created=port.get("description") == mark_of(device),
            )
