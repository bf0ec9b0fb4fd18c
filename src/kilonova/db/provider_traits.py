# SPDX-License-Identifier: Apache-2.0
"""Which traits providers have."""

from collections.abc import Collection

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from kilonova.db import providers, traits
from kilonova.db import tables as t
from kilonova.db.transaction import Transaction
from kilonova.model.provider import Provider
from kilonova.model.vocabulary import Word


def of_provider(connection: Connection, provider_id: int) -> tuple[Word, ...]:
    """Return the traits of a provider, oldest first."""
    links = t.resource_provider_traits
    statement = (
        sa.select(t.traits.c.name, t.traits.c.created_at, t.traits.c.updated_at)
        .join(links, links.c.trait_id == t.traits.c.id)
        .where(links.c.resource_provider_id == provider_id)
        .order_by(t.traits.c.id)
    )
    return tuple(Word(*row) for row in connection.execute(statement))


def replace(tx: Transaction, provider: Provider, names: Collection[str]) -> int:
    """Make these the provider's traits and return its generation, which rises only if something changed.

    Raises: NotFound for an unknown trait, ConcurrentUpdate.
    """
    wanted = set(traits.ids(tx.connection, names).values())
    links = t.resource_provider_traits
    mine = links.c.resource_provider_id == provider.id
    present = set(tx.connection.execute(sa.select(links.c.trait_id).where(mine)).scalars())
    if wanted == present:
        return provider.generation
    generation = providers.advance(tx, provider)
    if present - wanted:
        tx.execute(sa.delete(links).where(mine, links.c.trait_id.in_(sorted(present - wanted))))
    if wanted - present:
        rows = [{"resource_provider_id": provider.id, "trait_id": trait_id} for trait_id in sorted(wanted - present)]
        tx.execute(sa.insert(links), rows)
    providers.log_provider(tx, provider.id)
    return generation
