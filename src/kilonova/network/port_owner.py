# SPDX-License-Identifier: Apache-2.0
"""Servers as owners of ports, and the look-up of their ports in the network service."""

from collections.abc import Sequence

from kilonova.network.client import NetworkClient, Resource
from kilonova.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PortOwner:
    """A server as the owner of ports.

    ``zone``: its availability zone, a part of ``device_owner``. ``hostname``: the DNS name of its ports; "" for none.
    """

    instance_uuid: str
    project_id: str
    zone: str
    hostname: str = ""

    @property
    def device_owner(self) -> str:
        return f"compute:{self.zone}"


def mark_of(instance_uuid: str) -> str:
    """Return the description of a port that Kilonova creates for a server. Users may change it."""
    return f"Created by Kilonova for server {instance_uuid}"


def ports_of(client: NetworkClient, owner: PortOwner) -> Sequence[Resource]:
    """Return the ports of a server, without ports of other projects that have the server as their device."""
    return client.list("ports", device_id=owner.instance_uuid, project_id=owner.project_id)
