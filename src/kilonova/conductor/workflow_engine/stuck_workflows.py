# SPDX-License-Identifier: Apache-2.0
"""Operators' actions on workflows that do not continue: retry or abandon. Each action is logged with the user.

A stuck workflow can be retried or abandoned. A workflow that waits for an absent host continues automatically when the
host returns, so it can only be abandoned.
"""

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from kilonova.conductor.workflow_engine import server_log
from kilonova.conductor.workflow_engine.run import UNREACHABLE, Failure, failure_of
from kilonova.conductor.workflow_engine.runner import Runner
from kilonova.db import instance_actions, instances, server_migrations, workflows
from kilonova.db.core.transaction import Transaction
from kilonova.db.database import Database
from kilonova.db.workflows import WorkflowRow
from kilonova.errors import Conflict, NotFound
from kilonova.model.instance import VmState
from kilonova.model.requester import Requester
from kilonova.model.server_migration import ServerMigration
from kilonova.records import dataclass


@dataclass(frozen=True, slots=True)
class AbandonedWorkflow:
    """Leftovers of an abandoned workflow: hosts that may have the server's guest or claims, and an open migration."""

    hosts: tuple[str, ...]
    migration: ServerMigration | None


class StuckWorkflows:
    """Retries and abandons workflows.

    ``owner``: UUID of this process. If another process owns the workflow, that process finds the change in the journal.
    """

    def __init__(self, database: Database, runner: Runner, owner: str) -> None:
        self._database = database
        self._runner = runner
        self._owner = owner

    def retry(self, uuid: str, who: Requester) -> WorkflowRow:
        """Retry a stuck workflow at its present step, with the full number of tries.

        The server gets back the states that it had before it was put in error. Raises: NotFound, Conflict.
        """

        def retry(tx: Transaction) -> WorkflowRow:
            row = _require(tx, uuid)
            if not row.stuck:
                raise Conflict(f"{_named(row)} is not stuck: it continues {_when(row)}.")
            failure = failure_of(row) or Failure("")
            before = replace(failure, stuck_because="", vm_state=None, task_state=None)
            after = replace(
                row,
                stuck=False,
                tries=0,
                attempt=row.attempt + 1,
                version=row.version + 1,
                failure=asdict(before) if row.undoing else None,
            )
            workflows.change(tx, after, heir=row.owner != self._owner)
            server = instances.get(tx.connection, row.instance_uuid)
            values: dict[str, Any] = {"task_state": failure.task_state}
            if server.vm_state is VmState.ERROR and failure.vm_state is not None:
                values["vm_state"] = failure.vm_state
            instances.change(tx, row.instance_uuid, **values)
            return after

        row = self._database.write(retry)
        server_log.retried(row.instance_uuid, who.request_id, row.kind, row.step, who.user_id)
        self._go_on([row])
        return row

    def abandon(self, uuid: str, who: Requester) -> tuple[WorkflowRow, AbandonedWorkflow]:
        """Abandon a workflow that is stuck or waits for an absent host.

        The server is put in error, and its waiting workflows start. Returns the abandoned workflow and its leftovers,
        which stay until the server is deleted. Raises: NotFound, Conflict.
        """

        def abandon(tx: Transaction) -> tuple[WorkflowRow, AbandonedWorkflow, tuple[WorkflowRow, ...]]:
            row = _require(tx, uuid)
            if not (row.stuck or row.awaits_host):
                raise Conflict(f"{_named(row)} is not stuck: it continues {_when(row)}.")
            if not row.stuck:
                _put_in_error(tx, row)
            workflows.drop(tx, [uuid])
            instance_actions.fail(tx, [(row.instance_uuid, row.request_id)])
            hosts = instances.hosts_of(tx.connection, [row.instance_uuid]).get(row.instance_uuid, frozenset())
            left = AbandonedWorkflow(
                tuple(sorted(hosts)), server_migrations.find_open(tx.connection, row.instance_uuid)
            )
            return row, left, workflows.release_waiting(tx, row.instance_uuid, self._owner)

        row, left, released = self._database.write(abandon)
        server_log.abandoned(row.instance_uuid, who.request_id, row.kind, row.step, who.user_id)
        self._go_on(released)
        return row, left

    def _go_on(self, rows: Sequence[WorkflowRow]) -> None:
        self._runner.begin([row for row in rows if row.owner == self._owner], resumed=True)


def _require(tx: Transaction, uuid: str) -> WorkflowRow:
    row = workflows.get(tx.connection, uuid)
    if row is None:
        raise NotFound(f"Workflow {uuid} could not be found.")
    return row


def _named(row: WorkflowRow) -> str:
    return f"Workflow {row.uuid} ({row.kind} at step {row.step})"


def _when(row: WorkflowRow) -> str:
    return f"when host {row.awaited_host} returns" if row.awaits_host else "automatically"


def _put_in_error(tx: Transaction, row: WorkflowRow) -> None:
    """Put a server in error, as a stuck workflow does. The fault's message names no host, since users read it."""
    failure = failure_of(row) or Failure(UNREACHABLE, f"Host: {row.awaited_host}")
    instances.record_fault(tx, row.instance_uuid, failure.as_fault())
    instances.change(tx, row.instance_uuid, vm_state=VmState.ERROR, task_state=None)
