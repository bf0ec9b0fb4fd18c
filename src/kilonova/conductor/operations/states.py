# SPDX-License-Identifier: Apache-2.0
"""Reset of a server's state by an administrator."""

from kilonova.conductor.operations.starting import Starter, record_at_once
from kilonova.db import instances, quotas
from kilonova.db.core.transaction import Transaction
from kilonova.model.instance import Instance, VmState
from kilonova.model.quota import Usage
from kilonova.model.requester import Requester


class States:
    """Operation that resets a server's state, in one transaction that also records the instance action."""

    def __init__(self, starter: Starter) -> None:
        self._database = starter.services.database

    def reset(self, instance: Instance, state: VmState, who: Requester) -> None:
        """Set a server's vm_state and clear its task state. A running workflow detects the change and rolls back.

        A server that is soft-deleted or being soft-deleted is restored, and counted in the quota usage again.
        Raises: NotFound.
        """

        def reset(tx: Transaction) -> None:
            present = instances.get(tx.connection, instance.uuid)
            instances.change(tx, instance.uuid, vm_state=state, task_state=None, deleted_at=None)
            if not quotas.counts(present.vm_state, present.task_state):
                quotas.count_again(tx, present.project_id, present.user_id, Usage.of(present.flavor))
            record_at_once(tx, instance, who, "resetState", "api_reset_state")

        self._database.write(reset)
