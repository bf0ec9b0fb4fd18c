# SPDX-License-Identifier: Apache-2.0
"""The server that ports belong to, and the ports that are its own in the network service."""

from collections.abc import Sequence
from dataclasses import dataclass

from kilonova.network.client import NetworkClient, Resource


@dataclass(frozen=True, slots=True, kw_only=True)
class PortOwner:
    """A server as the owner of ports.

    ``zone``: its availability zone, which ``device_owner`` shows. ``hostname``: the DNS name of its ports; "" for none.
    """

    instance_uuid: str
    project_id: str
    zone: str
    hostname: str = ""

    @property
    def device_owner(self) -> str:
        return f"compute:{self.zone}"


def ports_of(client: NetworkClient, owner: PortOwner) -> Sequence[Resource]:
    """Return the ports of a server, without ports of other projects that name the server as their device."""
    return client.list("ports", device_id=owner.instance_uuid, project_id=owner.project_id)
