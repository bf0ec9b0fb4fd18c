# SPDX-License-Identifier: Apache-2.0
"""Events of the network service about the interfaces of servers."""

from enum import StrEnum

from kilonova.records import dataclass


class NetworkEventName(StrEnum):
    """Names of the events, as in ``POST /os-server-external-events``."""

    CHANGED = "network-changed"
    """Addresses or other attributes of the server's ports have changed."""

    VIF_PLUGGED = "network-vif-plugged"
    """The network service has connected a port: traffic may pass."""

    VIF_UNPLUGGED = "network-vif-unplugged"
    """The network service has disconnected a port."""

    VIF_DELETED = "network-vif-deleted"
    """A port of the server was deleted."""


#: Value of ``NetworkEvent.status`` of an event that reports success.
COMPLETED = "completed"


@dataclass(frozen=True, slots=True)
class NetworkEvent:
    """An event about a server. ``tag``: id of the port, "" if unknown. ``status``: ``completed`` or ``failed``."""

    name: NetworkEventName
    instance_uuid: str
    tag: str = ""
    status: str = COMPLETED
