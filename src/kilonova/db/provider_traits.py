# SPDX-License-Identifier: Apache-2.0
"""Traits of providers."""

import dataclasses
from collections.abc import Collection

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from kilonova.db.core import tables as t
from kilonova.db.core.transaction import Transaction
from kilonova.db.provider_edits import Change, ProviderEdit, advanced, edit, unless_changed
from kilonova.db.provider_states import ProviderState, Vocabulary
from kilonova.errors import NotFound
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


def of_consumer(connection: Connection, consumer_uuid: str) -> frozenset[str]:
    """Return the traits of all providers on which a consumer has allocations."""
    links, uses = t.resource_provider_traits, t.allocations
    statement = (
        sa.select(t.traits.c.name)
        .join(links, links.c.trait_id == t.traits.c.id)
        .join(uses, uses.c.resource_provider_id == links.c.resource_provider_id)
        .where(uses.c.consumer_uuid == consumer_uuid)
    )
    return frozenset(connection.execute(statement).scalars())


def all_changed(names: Collection[str]) -> Change:
    """Return the change that replaces all traits. It increments the generation only if a trait changes.

    The change raises NotFound for an unknown trait.
    """

    def change(state: ProviderState, words: Vocabulary) -> ProviderState:
        unknown = sorted(set(names) - words.traits.keys())
        if unknown:
            raise NotFound(f"No such trait(s): {', '.join(unknown)}.", names=unknown)
        wanted = {name: words.trait_ids[name] for name in names}
        return state if wanted == state.traits else dataclasses.replace(advanced(state), traits=wanted)

    return change


def replace(tx: Transaction, provider: Provider, names: Collection[str]) -> int:
    """Replace the traits of a provider if its stored generation equals that in ``provider``; return the new generation.

    Raises: NotFound for an unknown trait; ConcurrentUpdate.
    """
    change = unless_changed(provider.generation, all_changed(names))
    return edit(tx, ProviderEdit(provider.uuid, change, traits=names)).generation
