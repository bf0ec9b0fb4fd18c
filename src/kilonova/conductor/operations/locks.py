# SPDX-License-Identifier: Apache-2.0
"""Lock a server against its own project, and unlock it."""

from kilonova.conductor.operations.starting import Starter, record_at_once
from kilonova.db import instances
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
            record_at_once(tx, instance, who, "lock", "api_lock")

        self._database.write(lock)

    def unlock(self, instance: Instance, who: Requester) -> None:
        """Unlock a server; one that is not locked stays as it is. Raises: NotFound."""

        def unlock(tx: Transaction) -> None:
            if instances.get(tx.connection, instance.uuid).locked_by is None:
                return
            instances.change(tx, instance.uuid, locked_by=None, locked_reason=None)
            record_at_once(tx, instance, who, "unlock", "api_unlock")

        self._database.write(unlock)
