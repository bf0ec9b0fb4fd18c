# SPDX-License-Identifier: Apache-2.0
"""Which placement aggregates providers are members of. An aggregate is a uuid; it exists once somebody named it."""

from collections.abc import Collection

import sqlalchemy as sa

from kilonova.db import providers
from kilonova.db import tables as t
from kilonova.db.statements import insert_missing
from kilonova.db.transaction import Transaction
from kilonova.model.provider import Provider


def replace(tx: Transaction, provider: Provider, uuids: Collection[str], *, guarded: bool = True) -> int:
    """Make these the provider's aggregates and return its generation.

    ``guarded`` raises the generation (microversion 1.19); older requests neither check nor change it.
    Raises: ConcurrentUpdate.
    """
    generation = providers.advance(tx, provider) if guarded else provider.generation
    for uuid in uuids:
        insert_missing(tx, t.placement_aggregates, {"uuid": uuid})
    table, links = t.placement_aggregates, t.resource_provider_aggregates
    mine = links.c.resource_provider_id == provider.id
    wanted = set(tx.connection.execute(sa.select(table.c.id).where(table.c.uuid.in_(list(uuids)))).scalars())
    present = set(tx.connection.execute(sa.select(links.c.aggregate_id).where(mine)).scalars())
    if present - wanted:
        tx.execute(sa.delete(links).where(mine, links.c.aggregate_id.in_(sorted(present - wanted))))
    for aggregate_id in sorted(wanted - present):
        insert_missing(tx, links, {"resource_provider_id": provider.id, "aggregate_id": aggregate_id})
    providers.log_provider(tx, provider.id)
    return generation
