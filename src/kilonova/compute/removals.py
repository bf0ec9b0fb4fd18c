# SPDX-License-Identifier: Apache-2.0
"""Removal of guests named by removal records.

The guest of a server that has left the host is destroyed. The option ``running_deleted_instance_action`` determines the
action on the guest of a deleted server.
"""

import logging
import threading
from collections.abc import Callable
from datetime import datetime
from enum import StrEnum

from cachetools import LRUCache

from kilonova.compute.able_driver import AbleDriver
from kilonova.compute.kept_guests import keep
from kilonova.model.found_guest import Removal, RemovalReason
from kilonova.model.instance import GuestSpec, PowerState
from kilonova.records import dataclass

LOG = logging.getLogger(__name__)
#: Number of restored guests that an agent remembers. A removal whose record is older than that takes seconds at most.
_REMEMBERED = 1_000


class RunningDeletedAction(StrEnum):
    """Action on the guest of a deleted server: Nova's ``running_deleted_instance_action``."""

    NOOP = "noop"
    LOG = "log"
    SHUTDOWN = "shutdown"
    REAP = "reap"


@dataclass(frozen=True, slots=True)
class RunningDeleted:
    """Policy for guests of deleted servers. ``timeout_s``: minimum seconds between the deletion and the action."""

    action: RunningDeletedAction = RunningDeletedAction.REAP
    timeout_s: float = 0.0


class GuestRemover:
    """Removes the guests of one host that removal records name, except guests that are newer than their record.

    A guest that the host keeps for a move has the mark of its creation also after it was restored. So the agent
    remembers the orders that restored guests: a record written before such an order no longer applies. The removal may
    have been sent before the move was rolled back, by another thread or process than the order.

    ``on_gone``: called with the UUID of each destroyed guest.
    """

    def __init__(self, host: str, able: AbleDriver, deleted: RunningDeleted, on_gone: Callable[[str], None]) -> None:
        self._host = host
        self._able = able
        self._driver = able.driver
        self._deleted = deleted
        self._on_gone = on_gone
        self._lock = threading.Lock()
        #: Instance uuid → time of the last order to restore its guest.
        self._restored: LRUCache[str, datetime] = LRUCache(_REMEMBERED)

    def note_restored(self, guest: GuestSpec | None) -> None:
        """Remember that a guest is about to be restored by order; None if the order restores no guest."""
        if guest is not None and guest.ordered_at is not None:
            with self._lock:
                self._restored[guest.uuid] = max(guest.ordered_at, self._restored.get(guest.uuid, guest.ordered_at))

    def remove(self, removal: Removal) -> PowerState:
        """Apply a removal record to its guest and return the guest's new power state; no error if the guest is absent.

        Raises: DriverError.
        """
        uuid = removal.instance_uuid
        state = self._driver.list_guests().get(uuid)
        if state is None:
            return PowerState.NOSTATE
        if not removal.covers(self._driver.marked_guests().get(uuid)):
            LOG.warning("Host %s: guest %s is kept: it is newer than its removal record", self._host, uuid)
            return state
        if removal.keeps:
            if self._was_restored_after(removal):
                LOG.info("Host %s: guest %s was restored after its removal was recorded", self._host, uuid)
                return state
            LOG.warning("Host %s: guest %s is powered off and kept: its server is being evacuated", self._host, uuid)
            keep(self._able, uuid)
            return PowerState.SHUTDOWN
        if removal.departure is RemovalReason.LEFT:
            return self._destroy(uuid, "its server is elsewhere")
        return self._deal_with_deleted(removal, state)

    def _was_restored_after(self, removal: Removal) -> bool:
        with self._lock:
            restored_at = self._restored.get(removal.instance_uuid)
        return restored_at is not None and restored_at > removal.recorded_at

    def _deal_with_deleted(self, removal: Removal, state: PowerState) -> PowerState:
        uuid, action = removal.instance_uuid, self._deleted.action
        if action is RunningDeletedAction.NOOP or removal.age_s < self._deleted.timeout_s:
            return state
        if action is RunningDeletedAction.REAP:
            return self._destroy(uuid, "its server is deleted")
        LOG.warning("Host %s: guest %s still exists, but its server is deleted", self._host, uuid)
        if action is RunningDeletedAction.SHUTDOWN and state is not PowerState.SHUTDOWN:
            LOG.warning("Host %s: guest %s is powered off", self._host, uuid)
            self._driver.stop(uuid)
            return PowerState.SHUTDOWN
        return state

    def _destroy(self, uuid: str, why: str) -> PowerState:
        LOG.warning("Host %s: guest %s is destroyed: %s", self._host, uuid, why)
        self._driver.destroy(uuid)
        self._on_gone(uuid)
        return PowerState.NOSTATE
