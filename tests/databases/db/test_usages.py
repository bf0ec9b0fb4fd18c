# SPDX-License-Identifier: Apache-2.0
from kilonova.db import allocations, inventories, providers, usages
from kilonova.db.allocations import ConsumerRequest
from kilonova.db.core.transaction import Transaction
from kilonova.db.database import Database
from kilonova.identifiers import new_uuid
from kilonova.model.provider import Inventory


def test_amounts_are_added_up_by_project_user_and_type(database: Database) -> None:
    uuids = [new_uuid(), new_uuid()]

    def prepare(tx: Transaction) -> None:
        for uuid in uuids:
            provider = providers.create(tx, uuid, f"name of {uuid}")
            inventories.replace(tx, provider, [Inventory("VCPU", 99), Inventory("MEMORY_MB", 9999)])
        both = {uuid: {"VCPU": 2, "MEMORY_MB": 512} for uuid in uuids}
        one = {uuids[0]: {"VCPU": 1}}
        allocations.write(
            tx,
            [
                ConsumerRequest(new_uuid(), "p", "alice", both, "INSTANCE"),
                ConsumerRequest(new_uuid(), "p", "bob", one, "MIGRATION"),
                ConsumerRequest(new_uuid(), "p", "bob", one),
                ConsumerRequest(new_uuid(), "elsewhere", "bob", one, "INSTANCE"),
            ],
        )

    database.write(prepare)
    with database.read() as connection:
        assert usages.of_project(connection, "p") == {"MEMORY_MB": 1024, "VCPU": 6}
        assert usages.of_project(connection, "p", "bob") == {"VCPU": 2}
        assert usages.of_project(connection, "unknown") == {}
        by_type = usages.of_project_by_type(connection, "p")
        assert by_type == {
            "INSTANCE": {"consumer_count": 1, "MEMORY_MB": 1024, "VCPU": 4},
            "MIGRATION": {"consumer_count": 1, "VCPU": 1},
            "unknown": {"consumer_count": 1, "VCPU": 1},
        }
        assert usages.of_project_by_type(connection, "p", consumer_type="unknown") == {"unknown": by_type["unknown"]}
        everything = usages.of_project_by_type(connection, "p", "bob", "all")
        assert everything == {"all": {"consumer_count": 2, "VCPU": 2}}
