# SPDX-License-Identifier: Apache-2.0
import pytest

from kilonova.db import inventories, provider_lists, providers, usages
from kilonova.db.core.transaction import Transaction
from kilonova.db.database import Database
from kilonova.errors import ConcurrentUpdate
from kilonova.identifiers import new_uuid
from kilonova.model.provider import Inventory


def test_inventories_may_be_as_large_as_the_api_allows(database: Database) -> None:
    largest = Inventory("VCPU", total=2**31 - 1, max_unit=2**31 - 1, step_size=2**31 - 1, allocation_ratio=3.40282e38)

    def write(tx: Transaction) -> None:
        provider = providers.create(tx, new_uuid(), "large")
        inventories.replace(tx, provider, [largest])

    database.write(write)
    with database.read() as connection:
        provider = provider_lists.list_matching(
            connection, provider_lists.ProviderQuery(resources={"VCPU": 2**31 - 1})
        )[0]
        stored = inventories.of_provider(connection, provider.id)[0]
        assert usages.of_provider(connection, provider.id) == {"VCPU": 0}
    assert stored.inventory == largest


def test_a_generation_is_taken_once(database: Database) -> None:
    provider = database.write(lambda tx: providers.create(tx, new_uuid(), "one"))
    assert database.write(lambda tx: inventories.replace(tx, provider, [])) == 1
    with pytest.raises(ConcurrentUpdate):
        database.write(lambda tx: inventories.replace(tx, provider, []))
