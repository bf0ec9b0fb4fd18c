# SPDX-License-Identifier: Apache-2.0
"""Events of the network service about servers."""

from collections.abc import Sequence

from kilonova.conductor.operations.starting import Starter
from kilonova.db import network_events
from kilonova.model.network_event import NetworkEvent


class ExternalEvents:
    """Operation that stores events of the network service and wakes the workflows that wait for them."""

    def __init__(self, starter: Starter) -> None:
        self._database = starter.services.database
        self._runner = starter.runner

    def take(self, events: Sequence[NetworkEvent]) -> None:
        """Store events in one transaction, and continue the workflows that wait for them.

        The workflows of other control processes find the events within about a second.
        """
        if not events:
            return
        self._database.write(lambda tx: network_events.store(tx, events))
        self._runner.wake_for_events({event.instance_uuid for event in events})
