# SPDX-License-Identifier: Apache-2.0
"""Placement aggregates of providers. An aggregate is only a uuid; it is created when a request first names it."""

import dataclasses
from collections.abc import Collection

from kilonova.db.core.transaction import Transaction
from kilonova.db.provider_edits import NEW, Change, ProviderEdit, Vocabulary, advanced, edit, unless_changed
from kilonova.db.provider_states import ProviderState
from kilonova.model.provider import Provider


def all_changed(uuids: Collection[str], *, guarded: bool = True) -> Change:
    """Return the change that replaces all aggregates of a provider.

    ``guarded``: increment the provider's generation (since microversion 1.19); earlier microversions neither check nor
    change the generation.
    """

    def change(state: ProviderState, _words: Vocabulary) -> ProviderState:
        wanted = {uuid: state.aggregates.get(uuid, NEW) for uuid in uuids}
        return dataclasses.replace(advanced(state) if guarded else state, aggregates=wanted)

    return change


def replace(tx: Transaction, provider: Provider, uuids: Collection[str]) -> int:
    """Replace the aggregates of a provider if its stored generation equals that in ``provider``; return the new one.

    Raises: ConcurrentUpdate.
    """
    return edit(tx, ProviderEdit(provider.uuid, unless_changed(provider.generation, all_changed(uuids)))).generation
