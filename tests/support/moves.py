# SPDX-License-Identifier: Apache-2.0
"""Servers on hosts, and move orders with the rows that the API stores before the claim."""

from collections.abc import Sequence
from dataclasses import replace

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from kilonova.claims.claimer import Job, Order
from kilonova.claims.moving import Moving
from kilonova.claims.placing import Chosen, NextStep
from kilonova.db import instances, moves, server_migrations, workflows
from kilonova.db.core import tables as t
from kilonova.db.core.transaction import Transaction
from kilonova.db.workflows import WorkflowRow
from kilonova.identifiers import new_uuid
from kilonova.model.flavor import Flavor
from kilonova.model.instance import TaskState, VmState
from kilonova.model.quota import NO_LIMITS
from kilonova.model.request_spec import RequestSpec
from kilonova.model.server_migration import MigrationStatus, MigrationType, MoveKind, ServerMigration
from support.cell import IMAGE, SMALL, Cell
from support.orders import order

_KINDS = {
    MigrationType.RESIZE: (MoveKind.RESIZE, TaskState.RESIZE_PREP),
    MigrationType.MIGRATION: (MoveKind.COLD_MIGRATE, TaskState.RESIZE_PREP),
    MigrationType.LIVE_MIGRATION: (MoveKind.LIVE_MIGRATE, TaskState.MIGRATING),
}


def servers(
    cell: Cell, count: int = 1, *, flavor: Flavor = SMALL, group: str | None = None, on: str | None = None
) -> list[str]:
    """Place running servers, ``on`` the given host or any, and return their uuids."""
    placed = cell.claimer.place(order(cell, count, flavor=flavor, group=group, to=on)).workflows
    uuids = [flow.instance_uuid for flow in placed]

    def settle(tx: Transaction) -> None:
        workflows.finish_all(tx, placed, cell.conductor.owner)
        for uuid in uuids:
            instances.change(tx, uuid, vm_state=VmState.ACTIVE, task_state=None)

    cell.database.write(settle)
    return uuids


def move(
    cell: Cell,
    uuid: str,
    *,
    to: Flavor | None = None,
    kind: MigrationType = MigrationType.RESIZE,
    leaving: Sequence[str] | None = None,
) -> Order:
    """Start the move of a server, and return the order for its destination."""
    with cell.database.read() as connection:
        server = instances.get(connection, uuid)
        group = instances.group_of(connection, uuid)
    assert server.host is not None
    assert server.node is not None
    flow = WorkflowRow(
        uuid=new_uuid(), kind="move", instance_uuid=uuid, reservation_id="r-1", request_id="req-move", step="claim"
    )
    move_kind, task = _KINDS[kind]
    migration = ServerMigration(
        uuid=new_uuid(),
        instance_uuid=uuid,
        migration_type=kind,
        status=MigrationStatus.ACCEPTED,
        source_host=server.host,
        source_node=server.node,
        old_flavor=server.flavor,
        new_flavor=to or server.flavor,
        request_id="req-move",
        user_id="u",
        project_id="p",
    )

    def begin(tx: Transaction) -> ServerMigration:
        instances.change(tx, uuid, expected_tasks={None}, task_state=task)
        workflows.insert(tx, [flow], cell.conductor.owner)
        return moves.begin(tx, migration, NO_LIMITS)

    migration = cell.database.write(begin)
    spec = RequestSpec(server.flavor, IMAGE, "p", "u", "req-move", (uuid,)).moving(
        move_kind, uuid, leaving=(server.host,) if leaving is None else leaving, flavor=to
    )

    def at_host(chosen: Chosen) -> NextStep:
        return NextStep(replace(flow, step="prepare", attempt=1, version=1, facts={"host": chosen.host}))

    return Order(spec, (Job(uuid, at_host),), group, Moving(migration, task))


def settle(cell: Cell, uuid: str) -> None:
    """Finish the move of a server: remove its workflow and task state."""

    def clear(tx: Transaction) -> None:
        instances.change(tx, uuid, task_state=None)
        tx.execute(sa.delete(t.workflows).where(t.workflows.c.instance_uuid == uuid))

    cell.database.write(clear)


def again(wanted: Order, tried: ServerMigration) -> Order:
    """Return the order for another destination after the first one failed."""
    job = wanted.jobs[0]
    spec = replace(wanted.spec, tried=((str(tried.dest_host), str(tried.dest_node)),))
    second = Job(job.instance_uuid, lambda at: NextStep(replace(job.at_host(at).row, attempt=2, version=2)))
    return replace(wanted, spec=spec, jobs=(second,))


def migration_of(cell: Cell, wanted: Order) -> ServerMigration:
    """Return the present migration row of an order."""
    with cell.database.read() as connection:
        return migration_in(connection, wanted)


def migration_in(connection: Connection, wanted: Order) -> ServerMigration:
    """Return the migration of an order as read in a transaction."""
    assert isinstance(wanted.placing, Moving)
    return server_migrations.get(connection, wanted.placing.migration.uuid)


def held(cell: Cell) -> dict[str, dict[str, dict[str, int]]]:
    """Return consumer uuid → provider name → resource class → amount."""
    allocation, provider, resource = t.allocations.c, t.resource_providers, t.resource_classes
    joined = (
        sa.select(allocation.consumer_uuid, provider.c.name, resource.c.name, allocation.used)
        .join(provider, provider.c.id == allocation.resource_provider_id)
        .join(resource, resource.c.id == allocation.resource_class_id)
    )
    found: dict[str, dict[str, dict[str, int]]] = {}
    with cell.database.read() as connection:
        for consumer, name, resource_class, used in connection.execute(joined):
            found.setdefault(consumer, {}).setdefault(name, {})[resource_class] = used
    return found
