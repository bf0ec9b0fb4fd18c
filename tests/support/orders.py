# SPDX-License-Identifier: Apache-2.0
"""Orders for the claimer, with the rows that the API stores before the claim."""

from collections.abc import Sequence
from dataclasses import replace

import sqlalchemy as sa

from kilonova.claims.claimer import Job, Order
from kilonova.claims.placing import Chosen, NextStep
from kilonova.conductor.workflows.build import BUILD, BuildFacts
from kilonova.db import instances, quotas, workflows
from kilonova.db.core import tables as t
from kilonova.db.core.transaction import Transaction
from kilonova.db.workflows import WorkflowRow
from kilonova.identifiers import new_uuid
from kilonova.model.flavor import Flavor
from kilonova.model.instance import Instance, TaskState, VmState
from kilonova.model.quota import NO_LIMITS, QuotaRequest, Usage
from kilonova.model.request_spec import RequestSpec
from support.cell import IMAGE, SMALL, Cell


def order(
    cell: Cell, count: int = 1, *, flavor: Flavor = SMALL, group: str | None = None, to: str | None = None
) -> Order:
    """Store instances without a host, and return the order that places them. ``to``: the requested host."""
    uuids = [new_uuid() for _ in range(count)]
    flows = [
        BUILD.first_row(
            WorkflowRow(
                uuid=new_uuid(), kind="build", instance_uuid=uuid, reservation_id="r-1", request_id="req-1", step=""
            ),
            BuildFacts(),
        )
        for uuid in uuids
    ]
    states = VmState.BUILDING, flavor

    def store(tx: Transaction) -> None:
        built = [(Instance(0, uuid, "vm", "p", "u", *states, task_state=TaskState.SCHEDULING), group) for uuid in uuids]
        instances.insert(tx, built)
        quotas.take(tx, [QuotaRequest("p", "u", Usage.of(flavor), count, count)], NO_LIMITS)
        workflows.insert(tx, flows, cell.conductor.owner)

    cell.database.write(store)
    spec = RequestSpec(flavor, IMAGE, "p", "u", "req-1", tuple(uuids), requested_host=to)
    return Order(spec, tuple(job(flow) for flow in flows), group)


def job(flow: WorkflowRow) -> Job:
    """Return the job of a build workflow whose next step is spawn."""

    def at_spawn(chosen: Chosen) -> NextStep:
        place = {"host": chosen.host, "node": chosen.node, "provider": chosen.provider_uuid}
        row = replace(flow, step="spawn", attempt=1, version=1, facts={**flow.facts, **place})
        return NextStep(row, TaskState.SPAWNING)

    return Job(flow.instance_uuid, at_spawn)


def hosts_of(cell: Cell, uuids: Sequence[str]) -> list[str | None]:
    with cell.database.read() as connection:
        return [instance.host for instance in instances.get_many(connection, uuids)]


def generations(cell: Cell) -> dict[str, int]:
    with cell.database.read() as connection:
        rows = connection.execute(sa.select(t.resource_providers.c.name, t.resource_providers.c.generation))
        return {row.name: row.generation for row in rows}
