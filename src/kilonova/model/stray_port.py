# SPDX-License-Identifier: Apache-2.0
"""Stray ports: differences between the ports of servers in the network service and the servers in the database."""

from enum import StrEnum

from kilonova.records import dataclass


class StrayPortKind(StrEnum):
    """Kind of a stray port."""

    #: The device of the port is a server that was deleted.
    DELETED = "deleted"
    #: The device of the port is no server of the database.
    UNKNOWN = "unknown"
    #: The device of the port is a server that has no interface on this port.
    UNUSED = "unused"
    #: A server has an interface on this port, but the network service has no such port of the server.
    MISSING = "missing"


@dataclass(frozen=True, slots=True, kw_only=True)
class StrayPort:
    """A port without a server, or a server's interface without a port.

    ``instance_uuid``: the device of the port, or the server of the interface. ``host``: the host to which the port is
    bound. ``created_at``: as the network service has it. ``created``: Kilonova created the port for this server.
    """

    port_id: str
    instance_uuid: str
    kind: StrayPortKind
    project_id: str | None = None
    host: str | None = None
    created_at: str | None = None
    created: bool = False

    @property
    def is_removable(self) -> bool:
        """True if no server can need the port."""
        return self.created and self.kind is StrayPortKind.DELETED
