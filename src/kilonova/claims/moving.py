# SPDX-License-Identifier: Apache-2.0
"""Placing of a move, for resize, cold migration, live migration and evacuation.

The migration takes over the server's allocations on the source, and the server gets allocations on the destination.
The claim does not change ``instances.host``: :func:`kilonova.db.moves.switch` or ``leave_source`` does that later.
"""

from collections.abc import Sequence

import sqlalchemy as sa

from kilonova.claims.placing import Claim, FallsShort, require_isolation
from kilonova.db import consumers, instances, isolation_guard, moves, server_migrations
from kilonova.db.consumers import INSTANCE, Consumer
from kilonova.db.core import tables as t
from kilonova.db.core.statements import ManyRows
from kilonova.db.core.transaction import Transaction
from kilonova.model.instance import TaskState
from kilonova.model.server_migration import MigrationStatus, ServerMigration
from kilonova.records import dataclass


@dataclass(frozen=True, slots=True)
class Moving:
    """Placing of a moved server.

    The server must be on the source host of ``migration`` and in task state ``task``. In the database, the migration
    must still have the status of ``migration``. The claim sets the destination of the migration, and changes the status
    of the migration to ``becomes``.
    """

    migration: ServerMigration
    task: TaskState
    becomes: MigrationStatus = MigrationStatus.PRE_MIGRATING

    @property
    def home(self) -> str:
        return self.migration.source_host

    @classmethod
    def take(cls, tx: Transaction, claims: Sequence[Claim]) -> None:
        moving = [_of(claim) for claim in claims]
        rows = [
            {
                "uuid": claim.instance_uuid,
                "host": each.migration.source_host,
                "node": each.migration.source_node,
                "task": each.task.value,
                "shows": claim.shown_after(each.task),
                "isolation": claim.isolation_version,
            }
            for claim, each in zip(claims, moving, strict=True)
        ]
        destinations = [
            {
                "uuid": each.migration.uuid,
                "status": each.migration.status.value,
                "becomes": each.becomes.value,
                "host": claim.host,
                "node": claim.node,
            }
            for claim, each in zip(claims, moving, strict=True)
        ]
        if _STAY.run(tx, rows, now=tx.now) != len(rows):
            require_isolation(tx, claims)
            raise FallsShort("a server was deleted or changed", _moved_on(tx, claims))
        if server_migrations.claim_destinations(tx, destinations) != len(rows):
            raise FallsShort("a migration has ended", _ended(tx, claims))
        moves.hand_sources_over(tx, [each.migration for each in moving])

    @classmethod
    def record(cls, tx: Transaction, claims: Sequence[Claim]) -> None:
        present = consumers.present(tx, [claim.instance_uuid for claim in claims])
        new = [
            Consumer(claim.instance_uuid, claim.project_id, claim.user_id, INSTANCE)
            for claim in claims
            if claim.instance_uuid not in present
        ]
        consumers.add(tx, new)
        for claim in claims:
            instances.log(tx, claim.instance_uuid)
            moves.log_other_side(tx, _of(claim).migration.uuid)


def _of(claim: Claim) -> Moving:
    assert isinstance(claim.placing, Moving)
    return claim.placing


def _moved_on(tx: Transaction, claims: Sequence[Claim]) -> frozenset[str]:
    """Return the instances of ``claims`` that were deleted, were moved, or have another task state."""
    columns = _INSTANCE.uuid, _INSTANCE.host, _INSTANCE.node, _INSTANCE.task_state
    uuids = [claim.instance_uuid for claim in claims]
    there = {tuple(row) for row in tx.execute(sa.select(*columns).where(_INSTANCE.uuid.in_(uuids)))}
    return frozenset(
        claim.instance_uuid
        for claim in claims
        # This transaction's own UPDATE has already set the next task state of unchanged instances.
        if (claim.instance_uuid, *_of(claim).migration.source, claim.shown_after(_of(claim).task)) not in there
    )


def _ended(tx: Transaction, claims: Sequence[Claim]) -> frozenset[str]:
    """Return the instances of ``claims`` whose migrations were changed by another transaction."""
    gone = set()
    for claim in claims:
        present = server_migrations.get(tx.connection, _of(claim).migration.uuid)
        if present.status is not _of(claim).becomes or present.dest != (claim.host, claim.node):
            gone.add(claim.instance_uuid)
    return frozenset(gone)


_INSTANCE = t.instances.c
_STAY = ManyRows(
    {
        "uuid": _INSTANCE.uuid.type,
        "host": _INSTANCE.host.type,
        "node": _INSTANCE.node.type,
        "task": _INSTANCE.task_state.type,
        "shows": _INSTANCE.task_state.type,
        "isolation": sa.BigInteger(),
    },
    lambda given: (
        sa.update(t.instances)
        .where(  # a deleted instance does not match, because its host is NULL
            _INSTANCE.uuid == given["uuid"],
            _INSTANCE.host == given["host"],
            _INSTANCE.node == given["node"],
            _INSTANCE.task_state == given["task"],
            given["isolation"] == isolation_guard.VERSION,
        )
        .values(task_state=given["shows"], updated_at=sa.bindparam("now", type_=t.Time))
    ),
)
