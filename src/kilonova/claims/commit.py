# SPDX-License-Identifier: Apache-2.0
"""The claim as one guarded transaction, for many claims at once.

Every guard is one row locked by its own UPDATE: use below capacity, NUMA cells and PCI pools, members of a group on a
host, the one host of an affinity group, the instance that still waits, the workflow that is still ours. The version of
the isolation rules is only read: whoever raises it holds the lock of all writers. Bundles are summed per row and
written by a few set-based statements; when any row falls short the savepoint is rolled back and the bundles are tried
singly, in the order in which they came.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from kilonova.db import allocations, group_guards, host_devices, isolation_guard
from kilonova.db import tables as t
from kilonova.db.allocations import INSTANCE
from kilonova.db.host_devices import Taking
from kilonova.db.mirror_source import instance_value
from kilonova.db.providers import log_usage, touch
from kilonova.db.statements import ManyRows
from kilonova.db.transaction import Transaction, together
from kilonova.db.workflows import Workflow
from kilonova.errors import ClaimLost
from kilonova.model.host_devices import DeviceShare
from kilonova.model.instance import TaskState, VmState


@dataclass(frozen=True, slots=True)
class Claim:
    """One instance on one host. ``workflow`` is journalled with it.

    ``allocations``: provider id → resource class id → amount.
    ``devices``: what it takes of the cells and pools of the hypervisor ``node_uuid``.
    ``isolation_version``: of the isolation rules that the host was chosen by.
    """

    claim_id: str
    instance_uuid: str
    project_id: str
    user_id: str
    allocations: Mapping[int, Mapping[int, int]]
    host: str
    node: str
    workflow: Workflow
    group_uuid: str | None = None
    node_uuid: str = ""
    devices: DeviceShare | None = None
    isolation_version: int = 0
    flavor_id: str = ""
    image_properties: Mapping[str, str] = field(default_factory=dict)


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
    _take_devices(tx, claims)
    _join_groups(tx, claims)
    _journal(tx, bundles)
    consumers = [
        {"uuid": claim.instance_uuid, "project_id": claim.project_id, "user_id": claim.user_id, "kind": INSTANCE}
        for claim in claims
    ]
    uses = [
        {"consumer": claim.instance_uuid, "provider": provider_id, "class_id": class_id, "amount": amount}
        for claim in claims
        for provider_id, amounts in claim.allocations.items()
        for class_id, amount in amounts.items()
    ]
    allocations.store(tx, consumers, uses)
    for claim in claims:
        tx.claims.append(claim.claim_id)
        states = VmState.BUILDING.value, TaskState.SPAWNING.value
        value = instance_value(claim.host, claim.node, *states, claim.flavor_id, claim.image_properties)
        tx.log("instance", claim.instance_uuid, value)
    log_usage(tx, _providers(claims))
    return [None] * len(bundles)


#: Commits bundles together, or singly when one of them falls short; one outcome each, in order.
commit_bundles = together(_write, _refusal)


_INSTANCE, _INVENTORY, _FLOW = t.instances.c, t.inventories.c, t.workflows.c
_NOW = sa.bindparam("now", type_=t.Time)
_PLACE = ManyRows(
    {
        "uuid": _INSTANCE.uuid.type,
        "host": _INSTANCE.host.type,
        "node": _INSTANCE.node.type,
        "isolation": sa.BigInteger(),
    },
    lambda given: (
        sa.update(t.instances)
        .where(
            # A deleted instance has another vm_state. Asking for that column, too, leads SQLite to the wrong index.
            _INSTANCE.uuid == given["uuid"],
            _INSTANCE.vm_state == VmState.BUILDING.value,
            _INSTANCE.task_state == TaskState.SCHEDULING.value,
            given["isolation"] == isolation_guard.VERSION,
        )
        .values(host=given["host"], node=given["node"], task_state=TaskState.SPAWNING.value, updated_at=_NOW)
    ),
)
_USE = ManyRows(
    {"provider": sa.BigInteger(), "class_id": sa.BigInteger(), "amount": sa.BigInteger()},
    lambda given: (
        sa.update(t.inventories)
        .where(
            _INVENTORY.resource_provider_id == given["provider"],
            _INVENTORY.resource_class_id == given["class_id"],
            _INVENTORY.used + given["amount"] <= _INVENTORY.capacity,
        )
        .values(used=_INVENTORY.used + given["amount"])
    ),
)
_MOVE = ManyRows(
    {
        "uuid": _FLOW.uuid.type,
        "owner": _FLOW.owner.type,
        "step": _FLOW.step.type,
        "attempt": _FLOW.attempt.type,
        "body": _FLOW.body.type,
    },
    lambda given: (
        sa.update(t.workflows)
        .where(_FLOW.uuid == given["uuid"], _FLOW.owner == given["owner"], _FLOW.attempt == given["attempt"] - 1)
        .values(step=given["step"], attempt=given["attempt"], body=given["body"], updated_at=_NOW)
    ),
)


def _place_instances(tx: Transaction, claims: Sequence[Claim]) -> None:
    rows = [
        {
            "uuid": claim.instance_uuid,
            "host": claim.host,
            "node": claim.node,
            "isolation": claim.isolation_version,
        }
        for claim in claims
    ]
    if _PLACE.run(tx, rows, now=tx.now) == len(rows):
        return
    if {claim.isolation_version for claim in claims} != {isolation_guard.version(tx.connection)}:
        raise _Short("the isolation rules of aggregates have changed")
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
        for provider_id, amounts in claim.allocations.items():
            for class_id, amount in amounts.items():
                wanted[provider_id, class_id] += amount
    rows: list[dict[str, Any]] = [
        {"provider": provider_id, "class_id": class_id, "amount": amount}
        for (provider_id, class_id), amount in sorted(wanted.items())
    ]
    if _USE.run(tx, rows) != len(rows):
        raise _Short("a host is full")
    touch(tx, _providers(claims))


def _providers(claims: Sequence[Claim]) -> set[int]:
    return {provider_id for claim in claims for provider_id in claim.allocations}


def _take_devices(tx: Transaction, claims: Sequence[Claim]) -> None:
    takings = [Taking(claim.instance_uuid, claim.node_uuid, claim.devices) for claim in claims if claim.devices]
    if not host_devices.take(tx, takings):
        raise _Short("the cells or devices of a host are taken")


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
            "uuid": claim.workflow.uuid,
            "owner": bundle.owner,
            "step": claim.workflow.step,
            "attempt": claim.workflow.attempt,
            "body": claim.workflow.body,
        }
        for bundle in bundles
        for claim in bundle.claims
    ]
    if _MOVE.run(tx, rows, now=tx.now) == len(rows):
        return
    columns = t.workflows.c
    moved = {
        (row.uuid, row.attempt)
        for row in tx.execute(
            sa.select(columns.uuid, columns.attempt).where(
                columns.uuid.in_([row["uuid"] for row in rows]), columns.owner.in_({row["owner"] for row in rows})
            )
        )
    }
    claims = [claim for bundle in bundles for claim in bundle.claims]
    gone = {claim.instance_uuid for claim in claims if (claim.workflow.uuid, claim.workflow.attempt) not in moved}
    raise _Short("a workflow has another owner", frozenset(gone))
