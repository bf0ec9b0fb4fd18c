# SPDX-License-Identifier: Apache-2.0
"""The claim as one guarded transaction, for many claims at once.

Every guard is one row locked by its own UPDATE: use below capacity, members of a group on a host, the one host of an
affinity group, the instance that still waits, the workflow that is still ours. Bundles are summed per row, locked in
(provider, class) order and written by a few set-based statements; when any row falls short the savepoint is rolled
back and the bundles are tried singly, in the order in which they came.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from kilonova.db import group_guards
from kilonova.db import tables as t
from kilonova.db.database import Transaction, together
from kilonova.db.mirror_source import instance_value
from kilonova.db.providers import log_usage
from kilonova.db.workflows import Workflow
from kilonova.errors import ClaimLost
from kilonova.model.instance import TaskState, VmState


@dataclass(frozen=True, slots=True)
class Claim:
    """One instance on one host. ``resources``: resource class id → amount; ``workflow`` is journalled with it."""

    claim_id: str
    instance_uuid: str
    project_id: str
    user_id: str
    provider_id: int
    resources: Mapping[int, int]
    host: str
    node: str
    workflow: Workflow
    group_uuid: str | None = None


@dataclass(frozen=True, slots=True)
class Bundle:
    """Claims that succeed or fail together. ``owner`` fences their workflows."""

    claims: tuple[Claim, ...]
    owner: str


@dataclass(frozen=True, slots=True)
class InstancesGone:
    """Outcome: these instances are no longer waiting for a host; nothing was claimed."""

    uuids: frozenset[str]


@dataclass(slots=True)
class _Short(Exception):
    """Some guard did not hold."""

    what: str
    gone: frozenset[str] = field(default_factory=frozenset)


Outcome = None | InstancesGone


def _refusal(error: Exception) -> Outcome | BaseException:
    if not isinstance(error, _Short):
        return error
    if error.gone:
        return InstancesGone(error.gone)
    return ClaimLost(f"The claim was lost: {error.what}.")


def _write(tx: Transaction, bundles: Sequence[Bundle]) -> Sequence[Outcome]:
    claims = [claim for bundle in bundles for claim in bundle.claims]
    _place_instances(tx, claims)
    _use_inventories(tx, claims)
    _join_groups(tx, claims)
    _journal(tx, bundles)
    now = tx.now
    tx.execute(
        sa.insert(t.consumers),
        [
            {
                "uuid": claim.instance_uuid,
                "project_id": claim.project_id,
                "user_id": claim.user_id,
                "consumer_type": "INSTANCE",
                "generation": 1,
                "created_at": now,
                "updated_at": now,
            }
            for claim in claims
        ],
    )
    allocations = [
        {
            "consumer_uuid": claim.instance_uuid,
            "resource_provider_id": claim.provider_id,
            "resource_class_id": class_id,
            "used": amount,
            "created_at": now,
            "updated_at": now,
        }
        for claim in claims
        for class_id, amount in claim.resources.items()
    ]
    if allocations:
        tx.execute(sa.insert(t.allocations), allocations)
    for claim in claims:
        tx.claims.append(claim.claim_id)
        value = instance_value(claim.host, claim.node, VmState.BUILDING.value, TaskState.SPAWNING.value)
        tx.log("instance", claim.instance_uuid, value)
    log_usage(tx, {claim.provider_id for claim in claims})
    return [None] * len(bundles)


#: Commits bundles together, or singly when one of them falls short; one outcome each, in order.
commit_bundles = together(_write, _refusal)


_PLACE = (
    sa.update(t.instances)
    .where(
        t.instances.c.uuid == sa.bindparam("b_uuid"),
        t.instances.c.deleted.is_(False),
        t.instances.c.vm_state == VmState.BUILDING.value,
        t.instances.c.task_state == TaskState.SCHEDULING.value,
    )
    .values(
        host=sa.bindparam("b_host"),
        node=sa.bindparam("b_node"),
        task_state=TaskState.SPAWNING.value,
        updated_at=sa.bindparam("b_now"),
    )
)
_USE = (
    sa.update(t.inventories)
    .where(
        t.inventories.c.resource_provider_id == sa.bindparam("b_provider"),
        t.inventories.c.resource_class_id == sa.bindparam("b_class"),
        t.inventories.c.used + sa.bindparam("b_amount") <= t.inventories.c.capacity,
    )
    .values(used=t.inventories.c.used + sa.bindparam("b_amount"))
)
_BUMP = (
    sa.update(t.resource_providers)
    .where(t.resource_providers.c.id == sa.bindparam("b_provider"))
    .values(generation=t.resource_providers.c.generation + 1, updated_at=sa.bindparam("b_now"))
)
_MOVE = (
    sa.update(t.workflows)
    .where(
        t.workflows.c.uuid == sa.bindparam("b_uuid"),
        t.workflows.c.owner == sa.bindparam("b_owner"),
        t.workflows.c.attempt == sa.bindparam("b_attempt") - 1,
    )
    .values(
        step=sa.bindparam("b_step"),
        attempt=sa.bindparam("b_attempt"),
        body=sa.bindparam("b_body", type_=t.workflows.c.body.type),
        updated_at=sa.bindparam("b_now"),
    )
)


def _place_instances(tx: Transaction, claims: Sequence[Claim]) -> None:
    rows = [
        {"b_uuid": claim.instance_uuid, "b_host": claim.host, "b_node": claim.node, "b_now": tx.now} for claim in claims
    ]
    if tx.execute(_PLACE, rows).rowcount == len(rows):
        return
    columns = t.instances.c
    waiting = tx.execute(
        sa.select(columns.uuid).where(
            columns.uuid.in_([claim.instance_uuid for claim in claims]),
            columns.deleted.is_(False),
            columns.vm_state == VmState.BUILDING.value,
            # This transaction's own update has already moved the ones that were waiting.
            columns.task_state == TaskState.SPAWNING.value,
        )
    ).scalars()
    gone = frozenset(claim.instance_uuid for claim in claims) - set(waiting)
    raise _Short("an instance is gone", gone)


def _use_inventories(tx: Transaction, claims: Sequence[Claim]) -> None:
    wanted: dict[tuple[int, int], int] = defaultdict(int)
    for claim in claims:
        for class_id, amount in claim.resources.items():
            wanted[claim.provider_id, class_id] += amount
    rows: list[dict[str, Any]] = [
        {"b_provider": provider_id, "b_class": class_id, "b_amount": amount}
        for (provider_id, class_id), amount in sorted(wanted.items())
    ]
    if rows and tx.execute(_USE, rows).rowcount != len(rows):
        raise _Short("a host is full")
    providers = sorted({claim.provider_id for claim in claims})
    tx.execute(_BUMP, [{"b_provider": provider_id, "b_now": tx.now} for provider_id in providers])


def _join_groups(tx: Transaction, claims: Sequence[Claim]) -> None:
    for group_uuid in sorted({claim.group_uuid for claim in claims if claim.group_uuid is not None}):
        hosts: dict[str, int] = defaultdict(int)
        for claim in claims:
            if claim.group_uuid == group_uuid:
                hosts[claim.host] += 1
        if not group_guards.join_hosts(tx, group_uuid, hosts):
            raise _Short("the group's policy forbids the host")


def _journal(tx: Transaction, bundles: Sequence[Bundle]) -> None:
    rows = [
        {
            "b_uuid": claim.workflow.uuid,
            "b_owner": bundle.owner,
            "b_step": claim.workflow.step,
            "b_attempt": claim.workflow.attempt,
            "b_body": claim.workflow.body,
            "b_now": tx.now,
        }
        for bundle in bundles
        for claim in bundle.claims
    ]
    if tx.execute(_MOVE, rows).rowcount == len(rows):
        return
    columns = t.workflows.c
    moved = {
        (row.uuid, row.attempt)
        for row in tx.execute(
            sa.select(columns.uuid, columns.attempt).where(
                columns.uuid.in_([row["b_uuid"] for row in rows]), columns.owner.in_({row["b_owner"] for row in rows})
            )
        )
    }
    claims = [claim for bundle in bundles for claim in bundle.claims]
    gone = {claim.instance_uuid for claim in claims if (claim.workflow.uuid, claim.workflow.attempt) not in moved}
    raise _Short("a workflow has another owner", frozenset(gone))
