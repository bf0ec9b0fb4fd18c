# SPDX-License-Identifier: Apache-2.0
"""Removal of guests named by removal records.

The guest of a server that has left the host is destroyed. The option ``running_deleted_instance_action`` determines the
action on the guest of a deleted server.
"""

import logging
from collections.abc import Callable
from enum import StrEnum

from kilonova.compute.able_driver import AbleDriver
from kilonova.compute.kept_guests import keep
from kilonova.model.found_guest import Removal, RemovalReason
from kilonova.model.instance import PowerState
from kilonova.records import dataclass

LOG = logging.getLogger(__name__)


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

    ``on_gone``: called with the UUID of each destroyed guest.
    """

    def __init__(self, host: str, able: AbleDriver, deleted: RunningDeleted, on_gone: Callable[[str], None]) -> None:
        self._host = host
        self._able = able
        self._driver = able.driver
        self._deleted = deleted
        self._on_gone = on_gone

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
            LOG.warning("Host %s: guest %s is powered off and kept: its server is being evacuated", self._host, uuid)
            keep(self._able, uuid)
            return PowerState.SHUTDOWN
        if removal.departure is RemovalReason.LEFT:
            return self._destroy(uuid, "its server is elsewhere")
        return self._deal_with_deleted(removal, state)

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
