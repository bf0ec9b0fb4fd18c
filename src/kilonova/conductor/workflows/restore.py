# SPDX-License-Identifier: Apache-2.0
"""Restore: power a soft-deleted server on again. It counts against its quotas from the request on."""

from dataclasses import dataclass

from kilonova.conductor.workflow_engine.services import Services
from kilonova.conductor.workflow_engine.workflow import (
    CALL_OFF,
    CALLED_OFF,
    Completed,
    Effect,
    Ended,
    Run,
    SendToAgent,
    Step,
    Workflow,
    Write,
)
from kilonova.conductor.workflows.endings import fail, settle, settled_state
from kilonova.db import instances, shelved, soft_deletes
from kilonova.db.core.transaction import Transaction
from kilonova.messaging.messages import StartGuest
from kilonova.model.instance import PowerState
from kilonova.model.transitions import TRANSITIONS


@dataclass(frozen=True, slots=True)
class RestoreFacts:
    """``host``: where the guest is; without one there is nothing to power on."""

    host: str | None = None


def _power_on(_services: Services, run: Run[RestoreFacts]) -> Effect:
    if run.facts.host is None:
        return Completed()
    return SendToAgent(run.facts.host, StartGuest(run.step_id, run.instance_uuid))


def _settle(_services: Services, run: Run[RestoreFacts], power_state: PowerState | None) -> Write:
    def write(tx: Transaction) -> None:
        settle(tx, run, settled_state(run), power_state)
        shelved.forget_image(tx, run.instance_uuid)  # one that was shelved before runs from its own disk again
        instances.change(tx, run.instance_uuid, deleted_at=None, shelved_image=None, shelved_at=None)

    return write


def _failed(_services: Services, run: Run[RestoreFacts]) -> Ended:
    """The server is soft-deleted as before, since when it was. A delete that interrupts this counts it no longer."""
    if run.interrupted is not None:
        return Ended()

    def end(tx: Transaction) -> None:
        fail(tx, run, None, run.failure.known_power_state)
        soft_deletes.count_no_longer(tx, instances.get(tx.connection, run.instance_uuid))

    return Ended(end)


RESTORE = Workflow(
    "restore",
    RestoreFacts,
    (Step("power-on", do=_power_on, undo=CALL_OFF, on_undone=CALLED_OFF, event="compute_restore_instance"),),
    TRANSITIONS["restore"],
    settle=_settle,
    unwound=_failed,
    action="restore",
    done="restored",
)
