# SPDX-License-Identifier: Apache-2.0
"""What belongs to a provider is read alongside of it: nothing gets lost or to the wrong one."""

from kilonova.db import inventories as inventory_rows
from kilonova.db import mirror_source, provider_aggregates, provider_traits, providers, resource_classes
from kilonova.db.core.transaction import Transaction
from kilonova.db.database import Database
from kilonova.model.provider import Inventory

COUNT = 12
UUIDS = [f"{number:08x}-0000-4000-8000-000000000000" for number in range(COUNT)]
AGGREGATES = [f"{number:08x}-0000-4000-8000-00000000000a" for number in range(3)]


def has_inventory(number: int) -> bool:
    return number % 2 == 0


def has_traits(number: int) -> bool:
    return number % 3 == 0


def has_aggregates(number: int) -> bool:
    return number in {5, COUNT - 1}


def fill(tx: Transaction) -> None:
    resource_classes.ensure(tx, "CUSTOM_A")
    for number, uuid in enumerate(UUIDS):
        providers.create(tx, uuid, f"p{number}", UUIDS[number - 1] if number % 4 == 1 else None)
        if has_inventory(number):
            listed = [Inventory("VCPU", 10 + number), Inventory("CUSTOM_A", 20 + number)]
            inventory_rows.replace(tx, providers.get(tx.connection, uuid), listed)
        if has_traits(number):
            provider_traits.replace(tx, providers.get(tx.connection, uuid), ["HW_CPU_X86_AVX", "COMPUTE_NODE"])
        if has_aggregates(number):
            provider_aggregates.replace(tx, providers.get(tx.connection, uuid), AGGREGATES)


def test_every_provider_has_what_is_its_own(sqlite: Database) -> None:
    sqlite.write(fill)
    sqlite.write(lambda tx: providers.delete(tx, UUIDS[10]))
    with mirror_source.load(sqlite) as loaded:
        found = {change.key: change.value for change in loaded.changes if change.kind == "provider"}
    assert list(found) == [uuid for uuid in UUIDS if uuid != UUIDS[10]]
    for number, uuid in enumerate(UUIDS):
        if uuid not in found:
            continue
        value = found[uuid]
        totals = {name: figures[0] for name, figures in value.inventories.items()}
        assert totals == ({"VCPU": 10 + number, "CUSTOM_A": 20 + number} if has_inventory(number) else {})
        assert set(value.traits) == ({"HW_CPU_X86_AVX", "COMPUTE_NODE"} if has_traits(number) else set())
        assert set(value.aggregates) == (set(AGGREGATES) if has_aggregates(number) else set())
        is_child = number % 4 == 1
        assert value.parent == (UUIDS[number - 1] if is_child else None)
        assert value.root == (UUIDS[number - 1] if is_child else uuid)
