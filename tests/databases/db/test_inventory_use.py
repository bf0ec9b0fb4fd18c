# SPDX-License-Identifier: Apache-2.0
import pytest

from kilonova.db import inventories, inventory_use, providers, resource_classes, usages
from kilonova.db.core.transaction import Transaction
from kilonova.db.database import Database
from kilonova.identifiers import new_uuid
from kilonova.model.provider import Inventory


class ShortError(Exception):
    """Rolls a change back that did not fit."""


@pytest.mark.parametrize(
    ("amounts", "fits"),
    [
        ({"VCPU": 9}, True),
        ({"VCPU": 10}, False),
        ({"VCPU": 9, "MEMORY_MB": 101}, False),
        ({"VCPU": -3, "MEMORY_MB": 100}, True),
        ({"VCPU": 0, "DISK_GB": 0}, True),
        ({"DISK_GB": 1}, False),
    ],
)
def test_the_capacity_guards_every_row(database: Database, amounts: dict[str, int], fits: bool) -> None:
    """The provider has 12 VCPU, 3 of which are in use, and 100 MEMORY_MB."""

    def change(tx: Transaction, provider_id: int, wanted: dict[str, int]) -> None:
        ids = resource_classes.ids(tx.connection, wanted)
        if not inventory_use.change(tx, {(provider_id, ids[name]): amount for name, amount in wanted.items()}):
            raise ShortError

    def prepare(tx: Transaction) -> int:
        provider = providers.create(tx, new_uuid(), "node1")
        inventories.replace(tx, provider, [Inventory("VCPU", 8, allocation_ratio=1.5), Inventory("MEMORY_MB", 100)])
        change(tx, provider.id, {"VCPU": 3})
        return provider.id

    provider_id = database.write(prepare)
    if fits:
        database.write(lambda tx: change(tx, provider_id, amounts))
    else:
        with pytest.raises(ShortError):
            database.write(lambda tx: change(tx, provider_id, amounts))
    with database.read() as connection:
        used = usages.of_provider(connection, provider_id)
    done = amounts if fits else {}
    assert used == {"VCPU": 3 + done.get("VCPU", 0), "MEMORY_MB": done.get("MEMORY_MB", 0)}
