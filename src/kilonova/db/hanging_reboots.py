# SPDX-License-Identifier: Apache-2.0
"""Soft reboots that exceed ``reboot_timeout``."""

from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from kilonova.db import instances
from kilonova.db.core import tables as t
from kilonova.errors import ConcurrentUpdate
from kilonova.model.instance import Instance, TaskState

_SOFT = TaskState.REBOOTING, TaskState.REBOOT_PENDING, TaskState.REBOOT_STARTED
_I = t.instances.c


def since(connection: Connection, before: datetime, limit: int) -> tuple[Instance, ...]:
    """Return up to ``limit`` servers whose soft reboot has made no progress since ``before`` (the database's time)."""
    hang = _I.task_state.in_([task.value for task in _SOFT]), _I.updated_at < before, _I.deleted.is_(False)
    uuids = connection.execute(sa.select(_I.uuid).where(*hang).order_by(_I.id).limit(limit)).scalars().all()
    return instances.get_many(connection, uuids)


def require_unchanged(server: Instance, seen: Instance) -> None:
    """Check that the task state and update time of a server are still those of ``seen``. Raises: ConcurrentUpdate."""
    if (server.task_state, server.updated_at) != (seen.task_state, seen.updated_at):
        raise ConcurrentUpdate(f"Server {server.uuid} has changed since it was read.")
