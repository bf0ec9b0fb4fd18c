# SPDX-License-Identifier: Apache-2.0
"""Moves that can no longer be confirmed or reverted, because the server's state was reset or its delete has failed.

The source host of such a move still has the kept guest and holds resources for it. The guest is removed and the
resources are released when the server is about to leave its current host, or when ``resize_confirm_window`` is over. At
most one move of a server may hold resources at a source, because two such moves could not be distinguished.
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
    """Store workflows that clean up the sources of a server's abandoned moves, before the server leaves its host.

    Call this before the transaction interrupts the server's other workflows. The next operation on the server then
    waits for the clean-up, too.
    """
    if any(row.kind in _ENDING for row in workflows.of_instance(tx.connection, uuid)):
        return  # a running workflow is confirming or reverting the move, and will clean up the source
    for migration in server_migrations.open_of(tx.connection, [uuid]):
        if migration.status in _WAITING:
            give_up(tx, starter, migration)


def give_up(tx: Transaction, starter: Starter, migration: ServerMigration) -> WorkflowRow:
    """Store a workflow that cleans up the source of an abandoned move and sets the migration to error.

    The events of the workflow are recorded in the instance action of the move. Raises: ConcurrentUpdate.
    """
    server_migrations.set_status(tx, migration.uuid, _WAITING, MigrationStatus.CONFIRMING)
    who = Requester(migration.request_id, migration.user_id, migration.project_id)
    facts = MoveFacts(migration.uuid, migration.source_host, migration.dest_host, abandoned=True)
    row = CONFIRM_RESIZE.first_row(starter.row(CONFIRM_RESIZE, migration.instance_uuid, who), facts)
    workflows.insert(tx, [row], starter.services.owner)
    return row
