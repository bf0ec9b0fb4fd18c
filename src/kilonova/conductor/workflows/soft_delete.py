# SPDX-License-Identifier: Apache-2.0
"""Soft delete: confirm an open resize, power the guest off and keep it; delete the server if that is impossible.

::

    confirm ──▶ power-off ──▶ done (soft-delete)
        └───────────┴── the host is down, or there is none: replaced by a delete
"""

from contextlib import suppress
from dataclasses import replace
from datetime import datetime

from kilonova.conductor.workflow_engine.effects import Completed, Effect, Failed, Gone, SendToAgent
from kilonova.conductor.workflow_engine.run import TAKEN_OVER, Failure, Interrupt, Run, is_unreachable
from kilonova.conductor.workflow_engine.services import Services
from kilonova.conductor.workflow_engine.step_kinds import one_way
from kilonova.conductor.workflow_engine.workflow import Workflow, complete_or_fail
from kilonova.conductor.workflows.delete import DELETE, DeleteFacts, hosts_of_guest
from kilonova.conductor.workflows.endings import fail, failing, leave_behind
from kilonova.db import instance_networks, instances, moves, server_migrations, soft_deletes, workflows
from kilonova.db.core.transaction import Transaction
from kilonova.db.workflows import WorkflowRow
from kilonova.identifiers import new_uuid
from kilonova.messaging.messages import ConfirmMove, StepReply, StopGuest
from kilonova.model.instance import PowerState, TaskState
from kilonova.model.server_migration import MigrationStatus
from kilonova.model.transitions import TRANSITIONS
from kilonova.records import dataclass


@dataclass(frozen=True, slots=True)
class SoftDeleteFacts:
    """Facts of a soft delete. ``deleted_before``: time of an earlier soft delete; None if there was none.

    ``host``: host of the guest; None before the lookup. ``migration``: UUID of the resize to confirm first;
    ``source``: its source host.
    """

    deleted_before: datetime | None = None
    host: str | None = None
    migration: str | None = None
    source: str | None = None


def _confirm(services: Services, run: Run[SoftDeleteFacts]) -> Effect:
    """Confirm an open resize: order the source to remove the guest that it keeps. This cannot be undone."""
    if run.interrupt is Interrupt.DELETE:  # an earlier workflow of the server could not end completely
        return _delete_instead(services, run)
    with services.database.read() as connection:
        server = instances.find(connection, run.instance_uuid)
        migration = server_migrations.find_open(connection, run.instance_uuid)
    if server is None:
        return Gone()
    if server.host is None or (migration is not None and migration.status is not MigrationStatus.FINISHED):
        return _delete_instead(services, run)
    facts = replace(run.facts, host=server.host)
    if migration is None:
        return Completed(facts, durable=False)
    facts = replace(facts, migration=migration.uuid, source=migration.source_host)
    return SendToAgent(migration.source_host, ConfirmMove(run.step_id, run.instance_uuid), facts=facts)


def _confirmed(services: Services, run: Run[SoftDeleteFacts], reply: StepReply) -> Effect:
    facts = run.facts
    if is_unreachable(reply) and reply.host == facts.host:
        return _delete_instead(services, run)
    if reply.error is not None and not is_unreachable(reply):
        return Failed(Failure.of(reply))

    def confirm(tx: Transaction, run: Run[SoftDeleteFacts]) -> None:
        assert facts.migration is not None
        if is_unreachable(reply):
            leave_behind(services, tx, reply.host, run.instance_uuid)
        moves.confirm(tx, server_migrations.get(tx.connection, facts.migration))
        server, confirm = instances.get(tx.connection, run.instance_uuid), TRANSITIONS["confirm-resize"]
        if server.vm_state in confirm.states:
            runs = server.power_state is not PowerState.SHUTDOWN
            instances.change(tx, server.uuid, vm_state=confirm.settled if runs else confirm.settled_otherwise)

    return Completed(facts, confirm)


def _power_off(services: Services, run: Run[SoftDeleteFacts]) -> Effect:
    if run.facts.host is None:
        return _delete_instead(services, run)
    return SendToAgent(run.facts.host, StopGuest(run.step_id, run.instance_uuid, timeout_s=0.0))


def _powered_off(services: Services, run: Run[SoftDeleteFacts], reply: StepReply) -> Effect:
    return _delete_instead(services, run) if is_unreachable(reply) else complete_or_fail(services, run, reply)


def _delete_instead(services: Services, run: Run[SoftDeleteFacts]) -> Effect:
    """End this workflow and start a delete of the server instead, under the same instance action."""

    def take_place(tx: Transaction) -> WorkflowRow:
        workflows.finish(tx, run.row, services.owner)
        networks = services.network_client is not None and instance_networks.has_row(tx.connection, run.instance_uuid)
        facts = DeleteFacts(hosts_of_guest(tx.connection, run.instance_uuid), networks=networks)
        row = WorkflowRow(
            uuid=new_uuid(),
            kind=DELETE.kind,
            instance_uuid=run.instance_uuid,
            reservation_id="",
            request_id=run.request_id,
            step="",
            owner=services.owner,
        )
        row = DELETE.first_row(row, facts)
        workflows.insert(tx, [row], services.owner)
        shown = TRANSITIONS["soft-delete"].shown
        instances.change(tx, run.instance_uuid, expected_tasks=shown, task_state=TaskState.DELETING)
        return row

    with suppress(*TAKEN_OVER):
        services.begin([services.database.write(take_place)])
    return Gone()


def _hidden(tx: Transaction, run: Run[SoftDeleteFacts], power_state: PowerState | None) -> None:
    soft_deletes.hide(tx, run.instance_uuid, power_state)


def _failed(tx: Transaction, run: Run[SoftDeleteFacts]) -> None:
    """Leave the server in its previous state, with a fault. A server that was soft-deleted before remains so."""
    fail(tx, run, None, run.failure.known_power_state)
    instances.change(tx, run.instance_uuid, deleted_at=run.facts.deleted_before)


_EVENT = "compute_soft_delete_instance"
SOFT_DELETE = Workflow(
    "soft-delete",
    SoftDeleteFacts,
    (
        one_way("confirm", _confirm, on_reply=_confirmed, event=_EVENT),
        one_way("power-off", _power_off, on_reply=_powered_off, event=_EVENT),
    ),
    TRANSITIONS["soft-delete"],
    settle=_hidden,
    unwound=failing(_failed),
    action="delete",
    done="soft-deleted",
    urgent=True,
)
