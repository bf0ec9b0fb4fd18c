# SPDX-License-Identifier: Apache-2.0
"""Say what the state of a server is, where an administrator knows better."""

from kilonova.conductor.operations.starting import Starter, record_at_once
from kilonova.db import instances, quotas
from kilonova.db.core.transaction import Transaction
from kilonova.model.instance import Instance, VmState
from kilonova.model.quota import Usage
from kilonova.model.requester import Requester


class States:
    """Is done at once, in one transaction with the action that tells of it."""

    def __init__(self, starter: Starter) -> None:
        self._database = starter.services.database

    def reset(self, instance: Instance, state: VmState, who: Requester) -> None:
        """Give a server a state and no task. An operation that is under way finds that, and walks back.

        One that was soft-deleted, or was about to be, is back, and counts against quotas again. Raises: NotFound.
        """

        def reset(tx: Transaction) -> None:
            present = instances.get(tx.connection, instance.uuid)
            instances.change(tx, instance.uuid, vm_state=state, task_state=None, deleted_at=None)
            if not quotas.counts(present.vm_state, present.task_state):
                quotas.count_again(tx, present.project_id, present.user_id, Usage.of(present.flavor))
            record_at_once(tx, instance, who, "resetState", "api_reset_state")

        self._database.write(reset)
