# SPDX-License-Identifier: Apache-2.0
"""The networks that a create request asks for, after validation by the API. Stored until the server is deleted."""

from enum import StrEnum

from kilonova.records import dataclass


class NetworkMode(StrEnum):
    """How the interfaces of a new server are chosen."""

    NONE = "none"
    """The server gets no interfaces: requested by the user, or the cloud has no network service."""

    LISTED = "listed"
    """One interface for each item of ``networks``. The API replaces ``auto`` and an omitted field by such a list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedNetwork:
    """One requested interface: an existing port, or a new port on a network.

    ``network_id``: network of the port, also for an existing port. ``port_id``: an existing port of the user; None: a
    port is created. ``address``: requested fixed address of a new port; None: any. ``tag``: device tag.
    ``demands``: the existing port may require something of its host (``network/host_demands.py``).
    """

    network_id: str
    port_id: str | None = None
    address: str | None = None
    tag: str | None = None
    demands: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkRequest:
    """Networks and security groups of a new server. ``security_groups``: ids of the groups of new ports."""

    mode: NetworkMode = NetworkMode.NONE
    networks: tuple[RequestedNetwork, ...] = ()
    security_groups: tuple[str, ...] = ()

    @property
    def user_ports(self) -> frozenset[str]:
        """Ids of the requested ports that existed before; they are never deleted with the server."""
        return frozenset(each.port_id for each in self.networks if each.port_id is not None)


NO_NETWORKS = NetworkRequest()
