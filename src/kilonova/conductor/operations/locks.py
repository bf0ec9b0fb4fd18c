# SPDX-License-Identifier: Apache-2.0
"""Lock a server against its own project, and unlock it."""

from kilonova.conductor.operations.starting import Starter
from kilonova.db import instance_actions, instances
from kilonova.db.instance_actions import EndedEvent, NewAction
from kilonova.db.transaction import Transaction
from kilonova.model.instance import Instance, LockedBy
from kilonova.model.requester import Requester


class Locks:
    """Both are done at once, in one transaction with the action that tells of them."""

    def __init__(self, starter: Starter) -> None:
        self._database = starter.services.database

    def lock(self, instance: Instance, who: Requester, by: LockedBy, reason: str | None = None) -> None:
        """Lock a server; one that is locked stays as its owner finds it, and becomes the administrator's otherwise.

        Raises: NotFound.
        """

        def lock(tx: Transaction) -> None:
            present = instances.get(tx.connection, instance.uuid)
            if present.locked_by is not None and by is LockedBy.OWNER:
                return
            instances.change(tx, instance.uuid, locked_by=by, locked_reason=reason)
            _record(tx, instance, who, "lock")

        self._database.write(lock)

    def unlock(self, instance: Instance, who: Requester) -> None:
        """Unlock a server; one that is not locked stays as it is. Raises: NotFound."""

        def unlock(tx: Transaction) -> None:
            if instances.get(tx.connection, instance.uuid).locked_by is None:
                return
            instances.change(tx, instance.uuid, locked_by=None, locked_reason=None)
            _record(tx, instance, who, "unlock")

        self._database.write(unlock)


def _record(tx: Transaction, instance: Instance, who: Requester, action: str) -> None:
    instance_actions.begin(tx, [NewAction(instance.uuid, action, who.request_id, who.user_id, who.project_id)])
    instance_actions.add_events(tx, [EndedEvent(instance.uuid, who.request_id, f"api_{action}", tx.now)])
