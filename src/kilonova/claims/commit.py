# SPDX-License-Identifier: Apache-2.0
"""Commit of claims: many claims in one transaction, each guarded by conditional UPDATEs.

Each guard is an UPDATE of one row that also locks the row. The guards check usage within capacity, NUMA cells and PCI
pools, members of a group on a host, the host of an affinity group, and the workflow's owner and version. A placing adds
a guard on the instance: it still waits for a host, or is still on its source. The version number of the isolation rules
is only read, because a transaction that changes it holds the lock of all writers.

The changes of all bundles are summed per row and written by a few set-based statements. If any guard fails, the
savepoint is rolled back and the batch is bisected, down to single bundles. The order of the bundles is kept.

The statements of builds without devices and groups are sent in one round trip to PostgreSQL and MariaDB; the guards are
then evaluated after the last statement, in the same order.
"""

from collections import defaultdict
from collections.abc import Sequence

import sqlalchemy as sa

from kilonova.claims.building import Building
from kilonova.claims.placing import Claim, FallsShort, Placing
from kilonova.db import allocations, group_guards, host_devices, instance_actions, inventory_use, workflows
from kilonova.db.core import tables as t
from kilonova.db.core.transaction import Transaction, batched
from kilonova.db.host_devices import Taking
from kilonova.db.providers import log_usage, touch
from kilonova.db.workflows import WorkflowRow
from kilonova.errors import ClaimLost
from kilonova.records import dataclass


@dataclass(frozen=True, slots=True)
class Bundle:
    """Claims that succeed or fail together. ``owner``: the process that must own the workflows of these claims."""

    claims: tuple[Claim, ...]
    owner: str


@dataclass(frozen=True, slots=True)
class InstancesGone:
    """Outcome of a bundle: the instances ``uuids`` no longer wait for a host, and nothing was claimed."""

    uuids: frozenset[str]


Outcome = None | InstancesGone


def _refusal(error: Exception) -> Outcome | BaseException:
    if not isinstance(error, FallsShort):
        return error
    if error.gone:
        return InstancesGone(error.gone)
    return ClaimLost(f"The claim was lost: {error.what}.")


def _write(tx: Transaction, bundles: Sequence[Bundle]) -> Sequence[Outcome]:
    claims = [claim for bundle in bundles for claim in bundle.claims]
    if all(isinstance(claim.placing, Building) and not claim.devices and claim.group_uuid is None for claim in claims):
        with tx.together():
            _write_claims(tx, bundles, claims)
    else:
        _write_claims(tx, bundles, claims)
    return [None] * len(bundles)


def _write_claims(tx: Transaction, bundles: Sequence[Bundle], claims: Sequence[Claim]) -> None:
    placings = _by_placing(claims)
    for placing, some in placings:
        placing.take(tx, some)
    _use_inventories(tx, claims)
    _take_devices(tx, claims)
    _join_groups(tx, claims)
    _journal(tx, bundles)
    instance_actions.add_events(tx, [ended for claim in claims if (ended := claim.next_step.ended) is not None])
    for placing, some in placings:
        placing.record(tx, some)
    uses = [
        {"consumer": claim.instance_uuid, "provider": provider_id, "class_id": class_id, "amount": amount}
        for claim in claims
        for provider_id, amounts in claim.allocations.items()
        for class_id, amount in amounts.items()
    ]
    allocations.allocate(tx, uses)
    tx.claims.extend(claim.claim_id for claim in claims)
    log_usage(tx, _providers(claims))


def _by_placing(claims: Sequence[Claim]) -> list[tuple[type[Placing], list[Claim]]]:
    sorts: dict[type[Placing], list[Claim]] = defaultdict(list)
    for claim in claims:
        sorts[type(claim.placing)].append(claim)
    return list(sorts.items())


#: Commits bundles together, or bisects them if a guard fails. Returns one outcome per bundle, in the order of the
#: bundles.
commit_bundles = batched(_write, _refusal)


def _use_inventories(tx: Transaction, claims: Sequence[Claim]) -> None:
    wanted: dict[tuple[int, int], int] = defaultdict(int)
    for claim in claims:
        for provider_id, amounts in claim.allocations.items():
            for class_id, amount in amounts.items():
                wanted[provider_id, class_id] += amount
    fits = inventory_use.send_change(tx, wanted)
    tx.then(lambda: _require_room(fits()))
    touch(tx, _providers(claims))


def _require_room(fits: bool) -> None:
    if not fits:
        raise FallsShort("a host is full")


def _providers(claims: Sequence[Claim]) -> set[int]:
    return {provider_id for claim in claims for provider_id in claim.allocations}


def _take_devices(tx: Transaction, claims: Sequence[Claim]) -> None:
    takings = [Taking(claim.instance_uuid, claim.node_uuid, claim.devices) for claim in claims if claim.devices]
    if not host_devices.take(tx, takings):
        raise FallsShort("another server has taken the NUMA cells or PCI devices")


def _join_groups(tx: Transaction, claims: Sequence[Claim]) -> None:
    for group_uuid in sorted({claim.group_uuid for claim in claims if claim.group_uuid is not None}):
        joining: dict[str, int] = defaultdict(int)
        leaving: dict[str, int] = defaultdict(int)
        for claim in claims:
            home = claim.placing.home
            if claim.group_uuid != group_uuid or claim.host == home:
                continue  # the group already counts a server that stays on its host
            joining[claim.host] += 1
            if home is not None:
                leaving[home] += 1
        if joining and not group_guards.join_hosts(tx, group_uuid, joining, leaving):
            raise FallsShort("the group's policy forbids the host")


def _journal(tx: Transaction, bundles: Sequence[Bundle]) -> None:
    rows = [(claim.workflow, bundle.owner) for bundle in bundles for claim in bundle.claims]
    sent = workflows.send_moves(tx, rows)
    tx.then(lambda: _require_journal(tx, rows, sent.count()))


def _require_journal(tx: Transaction, rows: Sequence[tuple[WorkflowRow, str]], moved_rows: int) -> None:
    if moved_rows == len(rows):
        return
    columns = t.workflows.c
    owners = {owner for _, owner in rows}
    ours = sa.and_(columns.uuid.in_([row.uuid for row, _ in rows]), columns.owner.in_(owners))
    moved = {(row.uuid, row.version) for row in tx.execute(sa.select(columns.uuid, columns.version).where(ours))}
    gone = {row.instance_uuid for row, _ in rows if (row.uuid, row.version) not in moved}
    raise FallsShort("a workflow has another owner", frozenset(gone))
