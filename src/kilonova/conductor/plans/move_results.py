# SPDX-License-Identifier: Apache-2.0
"""Results of the moves of plans, from the statuses of their migrations."""

from collections.abc import Mapping

from kilonova.model.saved_plan import MoveState
from kilonova.model.server_migration import MigrationStatus, MoveKind

#: Status of a migration that has ended → state of the move. Migrations with other statuses are in progress.
ENDED: Mapping[MigrationStatus, MoveState] = {
    MigrationStatus.COMPLETED: MoveState.DONE,
    MigrationStatus.CONFIRMED: MoveState.DONE,
    MigrationStatus.CANCELLED: MoveState.FAILED,
    MigrationStatus.ERROR: MoveState.FAILED,
    MigrationStatus.FAILED: MoveState.FAILED,
    MigrationStatus.REVERTED: MoveState.FAILED,
}


def result_of(kind: MoveKind, status: MigrationStatus | None) -> MoveState | None:
    """Return the state of a move that has ended; None while it is under way.

    ``status``: of its migration; None if the migration was purged. A server is evacuated as soon as it is on its new
    host; its old host may remove the old guest much later.
    """
    if kind is MoveKind.EVACUATE and status is MigrationStatus.DONE:
        return MoveState.DONE
    return MoveState.FAILED if status is None else ENDED.get(status)


def reason_of(status: MigrationStatus | None, fault: str | None) -> str:
    """Return why a move has failed. ``status``: of its migration; None if the migration was purged.

    ``fault``: the newest fault of the server.
    """
    if status is MigrationStatus.REVERTED:
        return "The move was reverted."
    if status is MigrationStatus.CANCELLED:
        return "The migration was cancelled."
    return fault or "The migration has failed."
