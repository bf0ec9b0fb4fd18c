# SPDX-License-Identifier: Apache-2.0
"""Used amounts of one provider, and of the consumers of a project."""

from collections.abc import Mapping

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from kilonova.db.core import tables as t
from kilonova.db.core.statements import mapping
from kilonova.deadline import heeding

#: Type shown for consumers without a type.
UNKNOWN_TYPE = "unknown"


def of_provider(connection: Connection, provider_id: int) -> dict[str, int]:
    """Return resource class → used amount, for every inventory of a provider."""
    table = t.inventories
    statement = (
        sa.select(t.resource_classes.c.name, table.c.used)
        .join(t.resource_classes, t.resource_classes.c.id == table.c.resource_class_id)
        .where(table.c.resource_provider_id == provider_id)
        .order_by(table.c.resource_class_id)
    )
    return mapping(connection, statement)


def of_project(connection: Connection, project_id: str, user_id: str | None = None) -> dict[str, int]:
    """Return resource class → amount that the consumers of a project, or of one of its users, use."""
    statement = (
        sa.select(t.resource_classes.c.name, sa.func.sum(t.allocations.c.used))
        .select_from(t.allocations)
        .join(t.consumers, t.consumers.c.uuid == t.allocations.c.consumer_uuid)
        .join(t.resource_classes, t.resource_classes.c.id == t.allocations.c.resource_class_id)
        .where(*_owner(project_id, user_id))
        .group_by(t.resource_classes.c.name)
        .order_by(t.resource_classes.c.name)
    )
    return {name: int(used) for name, used in connection.execute(statement)}


def of_project_by_type(
    connection: Connection, project_id: str, user_id: str | None = None, consumer_type: str | None = None
) -> dict[str, Mapping[str, int]]:
    """Return consumer type → used amounts, and the number of consumers as ``consumer_count``.

    ``consumer_type``: return only this type. ``unknown`` stands for consumers without a type; ``all`` returns the sums
    over all types, as type ``all``.
    """
    kind = sa.func.coalesce(t.consumers.c.consumer_type, UNKNOWN_TYPE)
    shown = sa.literal("all") if consumer_type == "all" else kind
    joined = t.allocations.join(t.consumers, t.consumers.c.uuid == t.allocations.c.consumer_uuid)
    conditions = [*_owner(project_id, user_id)]
    if consumer_type not in {None, "all"}:
        conditions.append(kind == consumer_type)
    counts = sa.select(shown.label("kind"), sa.func.count(sa.distinct(t.consumers.c.uuid))).select_from(joined)
    found: dict[str, dict[str, int]] = {}
    for name, count in connection.execute(counts.where(*conditions).group_by(sa.text("kind"))):
        found[name] = {"consumer_count": int(count)}
    sums = (
        sa.select(shown.label("kind"), t.resource_classes.c.name, sa.func.sum(t.allocations.c.used))
        .select_from(joined.join(t.resource_classes, t.resource_classes.c.id == t.allocations.c.resource_class_id))
        .where(*conditions)
        .group_by(sa.text("kind"), t.resource_classes.c.name)
    )
    for name, resource_class, used in heeding(connection.execute(sums)):
        found[name][resource_class] = int(used)
    return dict(found)


def _owner(project_id: str, user_id: str | None) -> list[sa.ColumnElement[bool]]:
    conditions = [t.consumers.c.project_id == project_id]
    if user_id is not None:
        conditions.append(t.consumers.c.user_id == user_id)
    return conditions
