# SPDX-License-Identifier: Apache-2.0
"""Restore: power a soft-deleted server on again. The server counts against quotas from the request on."""

from kilonova.conductor.workflow_engine.run import Run
from kilonova.conductor.workflow_engine.step_kinds import order, sends
from kilonova.conductor.workflow_engine.workflow import Workflow
from kilonova.conductor.workflows.endings import fail, failing, settled
from kilonova.db import instances, shelved, soft_deletes
from kilonova.db.core.transaction import Transaction
from kilonova.messaging.messages import StartGuest
from kilonova.model.instance import PowerState
from kilonova.model.transitions import TRANSITIONS
from kilonova.records import dataclass


@dataclass(frozen=True, slots=True)
class RestoreFacts:
    """Facts of a restore. ``host``: host of the guest; None: there is nothing to power on."""

    host: str | None = None


def _restored(tx: Transaction, run: Run[RestoreFacts], power_state: PowerState | None) -> None:
    settled(tx, run, power_state)
    shelved.forget_image(tx, run.instance_uuid)  # the image of a server that was shelved before its delete
    instances.change(tx, run.instance_uuid, deleted_at=None, shelved_image=None, shelved_at=None)


def _failed(tx: Transaction, run: Run[RestoreFacts]) -> None:
    """Leave the server soft-deleted, with the original time of the delete, and release its quotas.

    This function is not called after an interrupt: an interrupting delete releases the quotas itself.
    """
    fail(tx, run, None, run.failure.known_power_state)
    soft_deletes.count_no_longer(tx, instances.get(tx.connection, run.instance_uuid))


RESTORE: Workflow[RestoreFacts] = Workflow(
    "restore",
    RestoreFacts,
    (order("power-on", sends(StartGuest), event="compute_restore_instance"),),
    TRANSITIONS["restore"],
    settle=_restored,
    unwound=failing(_failed),
    action="restore",
    done="restored",
)
