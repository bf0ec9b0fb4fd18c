# SPDX-License-Identifier: Apache-2.0
"""Lock and unlock of servers."""

from collections.abc import Callable
from dataclasses import replace

from kilonova.conductor.operations.starting import Starter, record_at_once
from kilonova.db import instances
from kilonova.db.core.transaction import Transaction
from kilonova.model.instance import Instance, LockedBy
from kilonova.model.requester import Requester


class Locks:
    """Operations that lock and unlock servers. Each operation is one transaction, which records its instance action."""

    def __init__(self, starter: Starter) -> None:
        self._database = starter.services.database

    def lock(self, instance: Instance, who: Requester, by: LockedBy, reason: str | None = None) -> Instance | None:
        """Lock a server. A lock by an administrator replaces an existing lock; a lock by an owner leaves it unchanged.

        Returns the changed server, or None if nothing was changed. Raises: NotFound.
        """

        def lock(tx: Transaction) -> Instance | None:
            present = instances.get(tx.connection, instance.uuid)
            if present.locked_by is not None and by is LockedBy.OWNER:
                return None
            instances.change(tx, instance.uuid, locked_by=by, locked_reason=reason)
            record_at_once(tx, instance, who, "lock", "api_lock")
            return replace(present, locked_by=by, locked_reason=reason)

        return self._database.write(lock)

    def unlock(
        self, instance: Instance, who: Requester, check: Callable[[Instance], object] = lambda _present: None
    ) -> Instance | None:
        """Unlock a server; no error if it is not locked.

        ``check``: called with the server as stored; raises an error if the requester may not remove the lock.
        Returns the changed server, or None if nothing was changed. Raises: NotFound; errors of ``check``.
        """

        def unlock(tx: Transaction) -> Instance | None:
            present = instances.get(tx.connection, instance.uuid)
            if present.locked_by is None:
                return None
            check(present)
            instances.change(tx, instance.uuid, locked_by=None, locked_reason=None)
            record_at_once(tx, instance, who, "unlock", "api_unlock")
            return replace(present, locked_by=None, locked_reason=None)

        return self._database.write(unlock)
