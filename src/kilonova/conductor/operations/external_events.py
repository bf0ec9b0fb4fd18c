# SPDX-License-Identifier: Apache-2.0
"""Events of the network service about servers."""

import logging
from collections import defaultdict
from collections.abc import Sequence

from kilonova.conductor.operations.interfaces import Interfaces
from kilonova.conductor.operations.network_caches import NetworkCaches
from kilonova.conductor.operations.starting import Starter
from kilonova.db import instance_networks, network_events
from kilonova.db.core.transaction import Transaction
from kilonova.model.network_event import COMPLETED, NetworkEvent, NetworkEventName

#: Name of an event about plugging → whether the port is plugged after it.
_PLUGGED = {NetworkEventName.VIF_PLUGGED: True, NetworkEventName.VIF_UNPLUGGED: False}

LOG = logging.getLogger(__name__)


class ExternalEvents:
    """Operation that handles events of the network service.

    ``interfaces``: detaches interfaces whose ports were deleted. ``caches``: renews the caches of servers whose ports
    have changed.
    """

    def __init__(self, starter: Starter, interfaces: Interfaces, caches: NetworkCaches) -> None:
        self._database = starter.services.database
        self._runner = starter.runner
        self._interfaces = interfaces
        self._caches = caches

    def take(self, events: Sequence[NetworkEvent]) -> None:
        """Store events in one transaction, and continue the workflows that wait for them.

        The workflows of other control processes find the events within about a second.
        """
        plugged = [event for event in events if event.name in _PLUGGED]
        if plugged:
            self._database.write(lambda tx: _store(tx, plugged))
            self._runner.wake_for_events({event.instance_uuid for event in plugged})
        for event in events:
            if event.name is NetworkEventName.VIF_DELETED:
                self._interfaces.lose(event.instance_uuid, event.tag)
        changed = [event.instance_uuid for event in events if event.name is NetworkEventName.CHANGED]
        self._caches.renew_soon(changed)


def _store(tx: Transaction, events: Sequence[NetworkEvent]) -> None:
    network_events.store(tx, events)
    active: dict[str, dict[str, bool]] = defaultdict(dict)
    for event in events:
        if event.status == COMPLETED:
            active[event.instance_uuid][event.tag] = _PLUGGED[event.name]
    for uuid, ports in active.items():
        instance_networks.set_active(tx, uuid, ports)
