# SPDX-License-Identifier: Apache-2.0
"""Search for stray ports, in batches::

    all ports by their ids, with the servers that they name ──▶ all servers by their uuids, with their ports

Ports are read before the database, and neither read locks the other. So ports and interfaces that differ are read once
more, and servers with a workflow are left out: their ports are changing.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from kilonova.db import instance_networks, instances, workflows
from kilonova.db.database import Database
from kilonova.errors import InvalidRequest, NotFound
from kilonova.model.network_info import NetworkInfo
from kilonova.model.stray_port import StrayPort, StrayPortKind
from kilonova.network import device_ports
from kilonova.network.client import NetworkClient
from kilonova.network.device_ports import DevicePort
from kilonova.records import dataclass

_PORTS, _SERVERS = "port", "server"
_UUID = "[0-9A-Za-z-]{1,36}"
_PLACE = re.compile(f"({_PORTS}):({_UUID})|({_SERVERS}):({_UUID})?(?:/({_UUID}))?")
#: Numbers of ports and of servers that one batch looks at.
_PORTS_AT_ONCE, _SERVERS_AT_ONCE = 500, 200


class Place(NamedTuple):
    """A place in the search: the search continues after it.

    ``port``: the last port that was looked at; None at the beginning, and after all ports. ``server``: the last server
    that was looked at, or ``""`` before the first; None before the end of the ports. ``interface``: the last port id of
    this server that was looked at; None: all of them.
    """

    port: str | None = None
    server: str | None = None
    interface: str | None = None

    def __str__(self) -> str:
        if self.server is None:
            return f"{_PORTS}:{self.port or ''}"
        return f"{_SERVERS}:{self.server}" + (f"/{self.interface}" if self.interface else "")

    @classmethod
    def read(cls, text: str) -> "Place":
        """Return the place that this text stands for. Raises: InvalidRequest."""
        found = _PLACE.fullmatch(text)
        if found is None:
            raise InvalidRequest("The marker is not one of this list.")
        _, port, servers, server, interface = found.groups()
        return cls(None, server or "", interface) if servers else cls(port)


#: The beginning of the search.
BEGINNING = Place()


class Batch(NamedTuple):
    """The stray ports of a part of the search, each with its place, and the place of the next batch; None at the end.

    ``looked_at``: number of ports and servers that the batch has looked at.
    """

    found: tuple[tuple[StrayPort, Place], ...]
    following: Place | None
    looked_at: int


@dataclass(frozen=True, slots=True)
class _Recorded:
    """What the database has about some servers. ``interfaces``: server → port ids. ``busy``: servers with a workflow.

    ``deleted``: uuid of a server → whether the server was deleted.
    """

    interfaces: Mapping[str, Collection[str]]
    busy: Collection[str]
    deleted: Mapping[str, bool]

    def kind_of(self, port: DevicePort) -> StrayPortKind | None:
        """Return why a port is stray; None if it is not."""
        is_deleted = self.deleted.get(port.device_id)
        if is_deleted is None:
            return StrayPortKind.UNKNOWN if port.is_of_server else None
        if is_deleted:
            return StrayPortKind.DELETED
        is_used = port.device_id in self.busy or port.id in self.interfaces.get(port.device_id, ())
        return None if is_used else StrayPortKind.UNUSED


class StrayPortSearch:
    """A search for stray ports, by one thread.

    ``ports_at_once``, ``servers_at_once``: numbers of ports and servers of one batch.
    All methods raise: Unavailable; ClientGone, DeadlineExceeded.
    """

    def __init__(
        self,
        client: NetworkClient,
        database: Database,
        *,
        ports_at_once: int = _PORTS_AT_ONCE,
        servers_at_once: int = _SERVERS_AT_ONCE,
    ) -> None:
        self._client = client
        self._database = database
        self._ports_at_once = ports_at_once
        self._servers_at_once = servers_at_once
        #: The port after which the last batch began, and the ports of this batch but the last one.
        self._earlier: tuple[str | None, ...] = ()

    def batch(self, place: Place = BEGINNING) -> Batch:
        """Return the next stray ports after a place. Raises: NotFound if the port of this place does not exist."""
        return self._of_ports(place.port) if place.server is None else self._of_servers(place)

    def find(self, port_id: str) -> StrayPort | None:
        """Return a stray port; None if the port does not exist, or is not stray."""
        return next(self._strays(device_ports.device_ports(self._client, [port_id])), None)

    def _of_ports(self, after: str | None) -> Batch:
        page = self._page(after)
        self._earlier = (after, *page.ids[:-1])
        suspects = [stray.port_id for stray in self._strays(page.ports)]
        looked_again = device_ports.device_ports(self._client, suspects)
        strays = {stray.port_id: stray for stray in self._strays(looked_again)}
        found = tuple((strays[each], Place(each)) for each in suspects if each in strays)
        return Batch(found, Place(page.ids[-1]) if page.ids else Place(server=""), len(page.ids))

    def _page(self, after: str | None) -> device_ports.Page:
        """Return the ports after a port. If this port was deleted since the last batch, use the port before it."""
        for earlier in reversed(self._earlier):
            try:
                return device_ports.page(self._client, after, self._ports_at_once)
            except NotFound:
                after = earlier
        return device_ports.page(self._client, after, self._ports_at_once)

    def _of_servers(self, place: Place) -> Batch:
        after = (place.server or "", place.interface)
        with self._database.read() as connection:
            infos = instance_networks.page(connection, after[0], self._servers_at_once + 1)
        last = next(reversed(infos), None) if len(infos) > self._servers_at_once else None
        missing = [each for each in self._missing(infos) if _follows(each, after)]
        if missing:  # look again
            with self._database.read() as connection:
                infos = instance_networks.infos_of(connection, {each.instance_uuid for each in missing})
            still = {(each.instance_uuid, each.port_id) for each in self._missing(infos)}
            missing = [each for each in missing if (each.instance_uuid, each.port_id) in still]
        found = tuple((each, Place(None, each.instance_uuid, each.port_id)) for each in missing)
        return Batch(found, None if last is None else Place(None, last), len(infos))

    def _missing(self, infos: Mapping[str, NetworkInfo]) -> list[StrayPort]:
        """Return the interfaces of these servers that have no port, in the order of servers and ports."""
        interfaces = [(uuid, vif.port_id) for uuid, info in infos.items() for vif in info]
        ports = device_ports.device_ports(self._client, [port_id for _, port_id in interfaces])
        devices = {port.id: port.device_id for port in ports}
        lost = [(uuid, port_id) for uuid, port_id in interfaces if devices.get(port_id) != uuid]
        if not lost:
            return []
        with self._database.read() as connection:
            busy = workflows.servers_among(connection, {uuid for uuid, _ in lost})
        return [
            StrayPort(port_id=port_id, instance_uuid=uuid, kind=StrayPortKind.MISSING)
            for uuid, port_id in sorted(lost)
            if uuid not in busy
        ]

    def _strays(self, ports: Iterable[DevicePort]) -> Iterator[StrayPort]:
        ports = tuple(ports)
        recorded = self._recorded({port.device_id for port in ports})
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

    def _recorded(self, devices: Collection[str]) -> _Recorded:
        with self._database.read() as connection:
            infos = instance_networks.infos_of(connection, devices)
            return _Recorded(
                {uuid: {vif.port_id for vif in info} for uuid, info in infos.items()},
                workflows.servers_among(connection, devices),
                instances.deletions(connection, devices),
            )


def _follows(stray: StrayPort, after: tuple[str, str | None]) -> bool:
    """Whether an interface follows a server, or one of this server's interfaces."""
    server, interface = after
    if stray.instance_uuid != server:
        return True
    return interface is not None and stray.port_id > interface
