# SPDX-License-Identifier: Apache-2.0
"""What is done inside a guest that runs: its password changes, or it writes a crash dump. The server stays as it is."""

from dataclasses import dataclass, field

from kilonova.conductor.workflow_engine.step_kinds import order, sends
from kilonova.conductor.workflow_engine.workflow import WRITE_NOTHING, Ended, Run, Workflow
from kilonova.conductor.workflows.endings import failed, settled
from kilonova.conductor.workflows.host_facts import HostFacts
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


def _set_password(run: Run[PasswordFacts]) -> SetAdminPassword:
    return SetAdminPassword(run.step_id, run.instance_uuid, run.facts.admin_password)


def _password_is_set(tx: Transaction, run: Run[PasswordFacts], power_state: PowerState | None) -> None:
    settled(tx, run, power_state)
    server_passwords.store(tx, run.instance_uuid, run.facts.encrypted)


def _not_dumped(tx: Transaction, run: Run[HostFacts]) -> None:
    instances.record_fault(tx, run.instance_uuid, run.failure.as_fault())


CHANGE_PASSWORD = Workflow(
    "change-password",
    PasswordFacts,
    (order("act", sends(_set_password), event="compute_set_admin_password"),),
    TRANSITIONS["change-password"],
    settle=_password_is_set,
    unwound=failed,
    action="changePassword",
    done="has a new password",
)
CRASH_DUMP = Workflow(
    "crash-dump",
    HostFacts,
    (order("act", sends(TriggerCrashDump), event="compute_trigger_crash_dump"),),
    TRANSITIONS["crash-dump"],
    settle=WRITE_NOTHING,  # the server shows no task for it, so another action may have begun
    unwound=lambda *_: Ended(_not_dumped),
    action="trigger_crash_dump",
    done="has written a crash dump",
)
