# SPDX-License-Identifier: Apache-2.0
"""Ports of all devices in the network service."""

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple
from urllib.parse import urlencode

from kilonova.deadline import heeding
from kilonova.errors import Unavailable
from kilonova.network.client import NetworkClient, Resource
from kilonova.network.port_changes import HOST
from kilonova.network.port_owner import mark_of
from kilonova.records import dataclass

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


class Page(NamedTuple):
    """The ports of a page that have a device, and the ids of all its ports, in the order of ids."""

    ports: tuple[DevicePort, ...]
    ids: tuple[str, ...]


def device_ports(client: NetworkClient, ids: Collection[str]) -> Iterator[DevicePort]:
    """Yield the ports with these ids that have a device."""
    return _with_device(client.list("ports", fields=_FIELDS, id=list(ids)) if ids else ())


def page(client: NetworkClient, after: str | None, limit: int) -> Page:
    """Return up to ``limit`` ports that follow the port ``after`` in the order of ids; None: the first ones.

    The service may return fewer ports; an empty page is the last one. Raises: NotFound if there is no port ``after``.
    """
    query = [("limit", limit), ("sort_key", "id"), ("sort_dir", "asc"), *(("fields", name) for name in _FIELDS)]
    if after is not None:
        query.append(("marker", after))
    found = client.call("GET", f"/ports?{urlencode(query)}").get("ports")
    if not isinstance(found, list):
        raise Unavailable("The network service answered without ports.")
    return Page(tuple(_with_device(found)), tuple(port["id"] for port in found))


def _with_device(ports: Iterable[Resource]) -> Iterator[DevicePort]:
    for port in heeding(ports):
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
