# SPDX-License-Identifier: Apache-2.0
"""Lists of resource providers by the filters of the Placement API."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from kilonova.db.core import tables as t
from kilonova.db.provider_states import PROVIDERS
from kilonova.deadline import heeding
from kilonova.model.provider import Provider
from kilonova.records import dataclass

_ME = t.resource_providers


@dataclass(frozen=True, slots=True)
class ProviderQuery:
    """Filters of `GET /resource_providers`, combined by AND.

    ``member_of``, ``required``: the provider must have at least one member of each inner set. ``resources``: resource
    class → amount that must be free.
    """

    uuid: str | None = None
    name: str | None = None
    in_tree: str | None = None
    member_of: Sequence[Collection[str]] = ()
    not_member_of: Collection[str] = ()
    required: Sequence[Collection[str]] = ()
    forbidden: Collection[str] = ()
    resources: Mapping[str, int] = field(default_factory=dict)


def list_matching(connection: Connection, query: ProviderQuery) -> tuple[Provider, ...]:
    """Return the matching providers, oldest first. Names of resource classes and traits must exist."""
    statement = PROVIDERS.order_by(_ME.c.id)
    if query.uuid is not None:
        statement = statement.where(_ME.c.uuid == query.uuid)
    if query.name is not None:
        statement = statement.where(_ME.c.name == query.name)
    if query.in_tree is not None:
        named = _ME.alias("named")
        root = sa.select(named.c.root_provider_id).where(named.c.uuid == query.in_tree).scalar_subquery()
        statement = statement.where(_ME.c.root_provider_id == root)
    for aggregates in query.member_of:
        statement = statement.where(_ME.c.id.in_(_members(aggregates)))
    if query.not_member_of:
        statement = statement.where(_ME.c.id.not_in(_members(query.not_member_of)))
    each = {name for names in query.required if len(names) == 1 for name in names}
    if each:
        counted = _having(each).group_by(t.resource_provider_traits.c.resource_provider_id)
        statement = statement.where(_ME.c.id.in_(counted.having(sa.func.count() == len(each))))
    for names in query.required:
        if len(names) > 1:
            statement = statement.where(_ME.c.id.in_(_having(names)))
    if query.forbidden:
        statement = statement.where(_ME.c.id.not_in(_having(query.forbidden)))
    for name, amount in query.resources.items():
        statement = statement.where(_ME.c.id.in_(_with_room(name, amount)))
    return tuple(Provider(*row) for row in heeding(connection.execute(statement)))


def _members(aggregates: Collection[str]) -> sa.Select[Any]:
    links = t.resource_provider_aggregates
    statement = sa.select(links.c.resource_provider_id).join(
        t.placement_aggregates, t.placement_aggregates.c.id == links.c.aggregate_id
    )
    return statement.where(t.placement_aggregates.c.uuid.in_(list(aggregates)))


def _having(traits: Collection[str]) -> sa.Select[Any]:
    links = t.resource_provider_traits
    statement = sa.select(links.c.resource_provider_id).join(t.traits, t.traits.c.id == links.c.trait_id)
    return statement.where(t.traits.c.name.in_(list(traits)))


def _with_room(name: str, amount: int) -> sa.Select[Any]:
    table = t.inventories
    return (
        sa.select(table.c.resource_provider_id)
        .join(t.resource_classes, t.resource_classes.c.id == table.c.resource_class_id)
        .where(
            t.resource_classes.c.name == name,
            table.c.used <= table.c.capacity - amount,
            table.c.min_unit <= amount,
            table.c.max_unit >= amount,
            sa.literal(amount) % table.c.step_size == 0,
        )
    )
