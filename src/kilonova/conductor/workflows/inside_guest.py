# SPDX-License-Identifier: Apache-2.0
"""Actions inside a running guest: set the admin password, trigger a crash dump. The server's state does not change."""

from dataclasses import field

from kilonova.conductor.workflow_engine.effects import Ended
from kilonova.conductor.workflow_engine.run import Run
from kilonova.conductor.workflow_engine.step_kinds import order, sends
from kilonova.conductor.workflow_engine.workflow import WRITE_NOTHING, Workflow
from kilonova.conductor.workflows.endings import failed, settled
from kilonova.conductor.workflows.host_facts import HostFacts
from kilonova.db import instances, server_passwords
from kilonova.db.core.transaction import Transaction
from kilonova.messaging.messages import SetAdminPassword, TriggerCrashDump
from kilonova.model.instance import PowerState
from kilonova.model.transitions import TRANSITIONS
from kilonova.records import dataclass


@dataclass(frozen=True, slots=True)
class PasswordFacts:
    """Facts of a password change. ``host``: host of the guest.

    ``admin_password``: the new password, which is removed from the journal after the step.
    ``encrypted``: the password encrypted with the server's key pair, to be stored; "" if nothing is stored.
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


CHANGE_PASSWORD: Workflow[PasswordFacts] = Workflow(
    "change-password",
    PasswordFacts,
    (order("act", sends(_set_password), event="compute_set_admin_password", repeats=False),),
    TRANSITIONS["change-password"],
    settle=_password_is_set,
    unwound=failed,
    action="changePassword",
    done="has a new password",
)
CRASH_DUMP: Workflow[HostFacts] = Workflow(
    "crash-dump",
    HostFacts,
    (order("act", sends(TriggerCrashDump), event="compute_trigger_crash_dump", repeats=False),),
    TRANSITIONS["crash-dump"],
    settle=WRITE_NOTHING,  # a crash dump sets no task state, so another action may have started
    unwound=lambda *_: Ended(_not_dumped),
    action="trigger_crash_dump",
    done="has written a crash dump",
)
