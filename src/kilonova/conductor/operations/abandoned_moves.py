# SPDX-License-Identifier: Apache-2.0
"""Abandoned moves: they can no longer be confirmed or reverted, as the server's state was reset or its delete failed.

What the source keeps, guest and claims, is released before the server leaves its present host, since two moves of a
server that both hold a source could not be told apart. Until then it is kept, at most until ``resize_confirm_window``
is over.
"""

from kilonova.conductor.operations.starting import Starter
from kilonova.conductor.workflows.confirm_resize import CONFIRM_RESIZE
from kilonova.conductor.workflows.moves import MoveFacts
from kilonova.conductor.workflows.revert_resize import REVERT_RESIZE
from kilonova.db import server_migrations, workflows
from kilonova.db.core.transaction import Transaction
from kilonova.db.workflows import WorkflowRow
from kilonova.model.requester import Requester
from kilonova.model.server_migration import MigrationStatus, ServerMigration

_WAITING = {MigrationStatus.FINISHED, MigrationStatus.CONFIRMING, MigrationStatus.REVERTING}
_ENDING = {CONFIRM_RESIZE.kind, REVERT_RESIZE.kind}


def give_up_all(tx: Transaction, starter: Starter, uuid: str) -> None:
    """Store workflows that clean up the sources of abandoned moves, for a server that is about to leave its host.

    Call it before the transaction interrupts the server's other workflows, so that the server waits for the new ones.
    """
    if any(row.kind in _ENDING for row in workflows.of_instance(tx.connection, uuid)):
        return  # a workflow that confirms or reverts the move is running and will end it
    for migration in server_migrations.open_of(tx.connection, [uuid]):
        if migration.status in _WAITING:
            give_up(tx, starter, migration)


def give_up(tx: Transaction, starter: Starter, migration: ServerMigration) -> WorkflowRow:
    """Store a workflow that ends an abandoned move with an error, under the move's action. Raises: ConcurrentUpdate."""
    server_migrations.set_status(tx, migration.uuid, _WAITING, MigrationStatus.CONFIRMING)
    who = Requester(migration.request_id, migration.user_id, migration.project_id)
    facts = MoveFacts(migration.uuid, migration.source_host, migration.dest_host, abandoned=True)
    row = CONFIRM_RESIZE.first_row(starter.row(CONFIRM_RESIZE, migration.instance_uuid, who), facts)
    workflows.insert(tx, [row], starter.services.owner)
    return row
