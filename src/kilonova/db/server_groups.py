# SPDX-License-Identifier: Apache-2.0
"""Server groups and their members. Guard rows (``group_guards.py``) contain the number of members per host."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from kilonova.db.change_log.changes import LoggedGroup
from kilonova.db.core import tables as t
from kilonova.db.core.transaction import Transaction
from kilonova.deadline import heeding
from kilonova.errors import NotFound, OverQuota
from kilonova.model.server_group import ServerGroup


def get(connection: Connection, uuid: str) -> ServerGroup:
    """Return a group with its members that are not deleted. Raises: NotFound."""
    return _groups(connection, [_row(connection, uuid)])[0]


def list_for(connection: Connection, project_id: str | None) -> tuple[ServerGroup, ...]:
    """Return the groups of a project in order of creation. ``project_id``: None for the groups of all projects."""
    statement = sa.select(t.server_groups).order_by(t.server_groups.c.id)
    if project_id is not None:
        statement = statement.where(t.server_groups.c.project_id == project_id)
    return _groups(connection, connection.execute(statement).mappings().all())


def count(connection: Connection, project_id: str, user_id: str | None = None) -> int:
    """Return the number of groups of a project, or of one user in it."""
    table = t.server_groups
    owned = sa.select(sa.func.count()).select_from(table).where(table.c.project_id == project_id)
    if user_id is not None:
        owned = owned.where(table.c.user_id == user_id)
    return int(connection.execute(owned).scalar_one())


def create(tx: Transaction, group: ServerGroup, *, limit: int = -1, limit_of_user: int = -1) -> ServerGroup:
    """Store a new group. Raises: OverQuota if the project, or the user in it, is at the given limit (-1: unlimited)."""
    table = t.server_groups
    for most, user_id in ((limit, None), (limit_of_user, group.user_id)):
        if 0 <= most <= count(tx.connection, group.project_id, user_id):
            raise OverQuota("Quota exceeded, too many server groups.", limit=most)
    row = {
        "uuid": group.uuid,
        "name": group.name,
        "project_id": group.project_id,
        "user_id": group.user_id,
        "policy": group.policy,
        "max_server_per_host": group.max_server_per_host,
        "has_rules": group.has_rules,
        "created_at": tx.now,
    }
    tx.execute(sa.insert(table), row)
    tx.log("group", group.uuid, LoggedGroup(group.policy, group.max_server_per_host, None, {}))
    return get(tx.connection, group.uuid)


def delete(tx: Transaction, uuid: str) -> None:
    """Delete a group; its members stay on their hosts. Raises: NotFound."""
    row_id = _row(tx.connection, uuid)["id"]
    for table in (t.server_group_members, t.server_group_hosts):
        tx.execute(sa.delete(table).where(table.c.group_id == row_id))
    tx.execute(sa.delete(t.server_groups).where(t.server_groups.c.id == row_id))
    tx.log("group", uuid, None)


def missing(uuid: str) -> NotFound:
    """Return the error for a group that does not exist or is not visible to the caller."""
    return NotFound(f"Instance group {uuid} could not be found.", uuid=uuid)


def _row(connection: Connection, uuid: str) -> Mapping[Any, Any]:
    row = connection.execute(sa.select(t.server_groups).where(t.server_groups.c.uuid == uuid)).mappings().first()
    if row is None:
        raise missing(uuid)
    return row


def _groups(connection: Connection, rows: Sequence[Mapping[Any, Any]]) -> tuple[ServerGroup, ...]:
    members: dict[int, list[str]] = defaultdict(list)
    table = t.server_group_members
    alive = (
        sa.select(table.c.group_id, table.c.instance_uuid)
        .join(t.instances, t.instances.c.uuid == table.c.instance_uuid)
        .where(t.instances.c.deleted.is_(False))
        .order_by(t.instances.c.id)
    )
    if len(rows) == 1:
        alive = alive.where(table.c.group_id == rows[0]["id"])
    for group_id, instance_uuid in heeding(connection.execute(alive)):
        members[group_id].append(instance_uuid)
    return tuple(
        ServerGroup(
            uuid=row["uuid"],
            name=row["name"],
            policy=row["policy"],
            project_id=row["project_id"],
            user_id=row["user_id"],
            max_server_per_host=row["max_server_per_host"],
            has_rules=row["has_rules"],
            members=tuple(members[row["id"]]),
            created_at=row["created_at"],
        )
        for row in heeding(rows)
    )
