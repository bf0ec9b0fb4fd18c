# SPDX-License-Identifier: Apache-2.0
"""Soft-deleted servers: their quota usage, and the search for servers that are due for deletion.

A soft-deleted server keeps its allocations, and remains a member of its server group. It counts against no quota,
except during a restore. Each function is part of one transaction.
"""

from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from kilonova.db import instances, quotas
from kilonova.db.core import tables as t
from kilonova.db.core.transaction import Transaction
from kilonova.errors import OverQuota
from kilonova.model.instance import Instance, PowerState, VmState
from kilonova.model.quota import Limits, QuotaRequest, Usage
from kilonova.model.transitions import TRANSITIONS

_I, _A = t.instances.c, t.instance_actions.c


def hide(tx: Transaction, uuid: str, power_state: PowerState | None) -> None:
    """Mark a server with task ``soft-deleting`` as soft-deleted. Raises: NotFound, UnexpectedTaskState."""
    before, transition = instances.get(tx.connection, uuid), TRANSITIONS["soft-delete"]
    values: dict[str, Any] = {} if power_state is None else {"power_state": power_state}
    instances.change(
        tx,
        uuid,
        expected_tasks=transition.shown,
        vm_state=transition.settled,
        task_state=None,
        progress=0,
        **values,
    )
    if quotas.counts(before.vm_state, before.task_state):
        count_no_longer(tx, before)


def count_again(tx: Transaction, instance: Instance, configured: Limits, limits: Limits | None) -> None:
    """Count a soft-deleted server against quotas again, because it is being restored.

    ``configured``: limits of the configuration, which limits in the database override. ``limits``: the limits in force
    if Keystone keeps them (unified limits), otherwise None. Raises: OverQuota.
    """
    asked = QuotaRequest(instance.project_id, instance.user_id, Usage.of(instance.flavor), 1, 1, limits=limits)
    (granted,) = quotas.take(tx, [asked], configured)
    if isinstance(granted, OverQuota):
        raise granted


def count_no_longer(tx: Transaction, instance: Instance) -> None:
    """Release the quota of a server that is soft-deleted or whose restore has failed."""
    quotas.give_back(tx, instance.project_id, instance.user_id, Usage.of(instance.flavor))


def due(connection: Connection, before: datetime, limit: int) -> tuple[Instance, ...]:
    """Return up to ``limit`` soft-deleted servers without a task that were deleted before a time, oldest first."""
    wanted = (
        sa.select(_I.uuid)
        .where(
            _I.deleted.is_(False),
            _I.deleted_at < before,
            _I.vm_state == VmState.SOFT_DELETED.value,
            _I.task_state.is_(None),
        )
        .order_by(_I.deleted_at)
        .limit(limit)
    )
    return instances.get_many(connection, list(connection.execute(wanted).scalars()))


def request_of_delete(connection: Connection, uuid: str) -> str | None:
    """Return the id of the last delete request for a server, or None if this request is no longer recorded."""
    deletes = sa.select(_A.request_id).where(_A.instance_uuid == uuid, _A.action == "delete")
    found: str | None = connection.execute(deletes.order_by(_A.id.desc()).limit(1)).scalar()
    return found
