# SPDX-License-Identifier: Apache-2.0
"""Search for stray ports, and their removal by operators.

Ports are read before the database, and neither read locks the other. So ports and interfaces that differ are read once
more, and servers with a workflow are left out: their ports are changing.
"""

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from kilonova.conductor.workflow_engine.services import Services
from kilonova.db import instance_networks, instances, workflows
from kilonova.errors import Conflict, NotFound
from kilonova.model.requester import Requester
from kilonova.model.stray_port import StrayPort, StrayPortKind
from kilonova.network import port_changes
from kilonova.network.client import NetworkClient
from kilonova.network.device_ports import DevicePort, device_ports

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Recorded:
    """What the database has. ``interfaces``: port id → server. ``busy``: servers with a workflow.

    ``deleted``: uuid of a server → whether the server was deleted.
    """

    interfaces: Mapping[str, str]
    busy: Collection[str]
    deleted: Mapping[str, bool]

    def kind_of(self, port: DevicePort) -> StrayPortKind | None:
        """Return why a port is stray; None if it is not."""
        is_deleted = self.deleted.get(port.device_id)
        if is_deleted is None:
            return StrayPortKind.UNKNOWN if port.is_of_server else None
        if is_deleted:
            return StrayPortKind.DELETED
        is_used = port.device_id in self.busy or self.interfaces.get(port.id) == port.device_id
        return None if is_used else StrayPortKind.UNUSED


class StrayPorts:
    """Operations on ports without a server, and on interfaces without a port."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._database = services.database

    def find(self) -> tuple[StrayPort, ...]:
        """Return all stray ports, sorted by server.

        Raises: Conflict without a network service; Unavailable; ClientGone, DeadlineExceeded.
        """
        suspects = {stray.port_id for stray in self._differences(None)}
        return tuple(self._differences(suspects)) if suspects else ()

    def remove(self, port_id: str, requester: Requester) -> None:
        """Delete a stray port that Kilonova created for a server which was deleted.

        Raises: NotFound; Conflict if the port may be needed, or another program created it; Unavailable.
        """
        stray = next(iter(self._differences({port_id})), None)
        if stray is None:
            raise NotFound(f"Port {port_id} is not stray.")
        if stray.kind is not StrayPortKind.DELETED:
            raise Conflict(f"The server {stray.instance_uuid} of port {port_id} is not known as deleted.")
        if not stray.created:
            raise Conflict(
                f"Port {port_id} does not have the description of a port that Kilonova has created for a server, so "
                "Kilonova does not delete it: use the network service."
            )
        port_changes.delete(self._client, port_id)
        LOG.warning("User %s deleted stray port %s of server %s", requester.user_id, port_id, stray.instance_uuid)

    @property
    def _client(self) -> NetworkClient:
        if self._services.network_client is None:
            raise Conflict("No network service is configured.")
        return self._services.network_client

    def _differences(self, ids: Collection[str] | None) -> list[StrayPort]:
        """Return those stray ports that have one of these ids, sorted by server; None: all stray ports."""
        ports = {port.id: port for port in device_ports(self._client, ids)}
        recorded = self._recorded(ports.values())
        wanted = recorded.interfaces if ids is None else recorded.interfaces.keys() & ids
        missing = [
            StrayPort(port_id=port_id, instance_uuid=server, kind=StrayPortKind.MISSING)
            for port_id in wanted
            if (server := recorded.interfaces[port_id]) not in recorded.busy
            and (port_id not in ports or ports[port_id].device_id != server)
        ]
        return sorted(
            [*missing, *_strays(recorded, ports.values())], key=lambda each: (each.instance_uuid, each.port_id)
        )

    def _recorded(self, ports: Iterable[DevicePort]) -> _Recorded:
        with self._database.read() as connection:
            return _Recorded(
                instance_networks.servers_of_ports(connection),
                workflows.servers(connection),
                instances.deletions(connection, {port.device_id for port in ports}),
            )


def _strays(recorded: _Recorded, ports: Iterable[DevicePort]) -> Iterator[StrayPort]:
    for port in ports:
        if kind := recorded.kind_of(port):
            yield StrayPort(
                port_id=port.id,
                instance_uuid=port.device_id,
                kind=kind,
                project_id=port.project_id,
                host=port.host,
                created_at=port.created_at,
                created=port.created,
            )
