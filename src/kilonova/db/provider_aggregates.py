# SPDX-License-Identifier: Apache-2.0
"""Placement aggregates of providers. An aggregate is only a uuid; it is created when a request first names it."""

import dataclasses
from collections.abc import Collection

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from kilonova.db.core import tables as t
from kilonova.db.core.transaction import Transaction
from kilonova.db.provider_edits import NEW, Change, ProviderEdit, advanced, edit, unless_changed
from kilonova.db.provider_states import ProviderState, Vocabulary
from kilonova.model.provider import Provider


def all_changed(uuids: Collection[str], *, guarded: bool = True) -> Change:
    """Return the change that replaces all aggregates of a provider.

    ``guarded``: increment the provider's generation (since microversion 1.19); earlier microversions neither check nor
    change the generation.
    """

    def change(state: ProviderState, words: Vocabulary) -> ProviderState:
        wanted = {uuid: words.aggregate_ids.get(uuid, NEW) for uuid in uuids}
        return dataclasses.replace(advanced(state) if guarded else state, aggregates=wanted)

    return change


def of_providers(connection: Connection, uuids: Collection[str]) -> dict[str, frozenset[str]]:
    """Return provider uuid → uuids of its aggregates. Providers that do not exist are left out."""
    providers, links, aggregates = t.resource_providers.c, t.resource_provider_aggregates, t.placement_aggregates
    joined = (
        sa.select(providers.uuid, aggregates.c.uuid)
        .select_from(t.resource_providers)
        .outerjoin(links, links.c.resource_provider_id == providers.id)
        .outerjoin(aggregates, aggregates.c.id == links.c.aggregate_id)
        .where(providers.uuid.in_(list(uuids)))
    )
    found: dict[str, set[str]] = {}
    for uuid, aggregate in connection.execute(joined):
        found.setdefault(uuid, set()).update(() if aggregate is None else (aggregate,))
    return {uuid: frozenset(members) for uuid, members in found.items()}


def replace(tx: Transaction, provider: Provider, uuids: Collection[str]) -> int:
    """Replace the aggregates of a provider if its stored generation equals that in ``provider``; return the new one.

    Raises: ConcurrentUpdate.
    """
    change = unless_changed(provider.generation, all_changed(uuids))
    return edit(tx, ProviderEdit(provider.uuid, change, aggregates=uuids)).generation
