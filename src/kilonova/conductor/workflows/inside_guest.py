# SPDX-License-Identifier: Apache-2.0
"""What is done inside a guest that runs: its password changes, or it writes a crash dump. The server stays as it is."""

from dataclasses import dataclass, field

from kilonova.conductor.workflow_engine.services import Services
from kilonova.conductor.workflow_engine.workflow import (
    CALL_OFF,
    CALLED_OFF,
    Effect,
    Ended,
    Run,
    SendToAgent,
    Step,
    Workflow,
    Write,
)
from kilonova.conductor.workflows.endings import failed, settle, settled_state
from kilonova.db import instances, server_passwords
from kilonova.db.core.transaction import Transaction
from kilonova.messaging.messages import SetAdminPassword, TriggerCrashDump
from kilonova.model.instance import PowerState
from kilonova.model.transitions import TRANSITIONS


@dataclass(frozen=True, slots=True)
class PasswordFacts:
    """``host``: where the guest is. ``admin_password`` leaves the journal with the step.

    ``encrypted``: what is kept of it for the owner of the server's key; "" where nothing is.
    """

    host: str
    admin_password: str = field(default="", repr=False)
    encrypted: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class DumpFacts:
    """``host``: where the guest is."""

    host: str


def _set_password(_services: Services, run: Run[PasswordFacts]) -> Effect:
    order = SetAdminPassword(run.step_id, run.instance_uuid, run.facts.admin_password)
    return SendToAgent(run.facts.host, order)


def _settle_password(_services: Services, run: Run[PasswordFacts], power_state: PowerState | None) -> Write:
    def write(tx: Transaction) -> None:
        settle(tx, run, settled_state(run), power_state)
        server_passwords.store(tx, run.instance_uuid, run.facts.encrypted)

    return write


def _dump(_services: Services, run: Run[DumpFacts]) -> Effect:
    return SendToAgent(run.facts.host, TriggerCrashDump(run.step_id, run.instance_uuid))


def _dumped(_services: Services, _run: Run[DumpFacts], _power_state: PowerState | None) -> Write:
    """Change nothing: the server shows no task for it, so another action may have begun."""
    return lambda _tx: None


def _not_dumped(_services: Services, run: Run[DumpFacts]) -> Ended:
    return Ended(lambda tx: instances.record_fault(tx, run.instance_uuid, run.failure.as_fault()))


CHANGE_PASSWORD = Workflow(
    "change-password",
    PasswordFacts,
    (Step("act", do=_set_password, undo=CALL_OFF, on_undone=CALLED_OFF, event="compute_set_admin_password"),),
    TRANSITIONS["change-password"],
    settle=_settle_password,
    unwound=failed,
    action="changePassword",
    done="has a new password",
)
CRASH_DUMP = Workflow(
    "crash-dump",
    DumpFacts,
    (Step("act", do=_dump, undo=CALL_OFF, on_undone=CALLED_OFF, event="compute_trigger_crash_dump"),),
    TRANSITIONS["crash-dump"],
    settle=_dumped,
    unwound=_not_dumped,
    action="trigger_crash_dump",
    done="has written a crash dump",
)
