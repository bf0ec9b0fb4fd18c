# SPDX-License-Identifier: Apache-2.0
"""What goes into a database comes out as it was, and is compared and sorted alike on every kind."""

from datetime import datetime
from typing import Any

import pytest
import sqlalchemy as sa

from kilonova.db import (
    aggregates,
    compute_nodes,
    flavors,
    instance_lists,
    instances,
    inventories,
    keypairs,
    provider_lists,
    providers,
    request_specs,
    resource_classes,
    services,
    traits,
    usages,
    workflows,
)
from kilonova.db.core import tables as t
from kilonova.db.core.statements import ManyRows, insert_many, insert_missing
from kilonova.db.core.transaction import Transaction
from kilonova.db.database import Database
from kilonova.db.instance_lists import InstanceQuery
from kilonova.db.workflows import WorkflowRow
from kilonova.errors import ConcurrentUpdate, Conflict, NotFound
from kilonova.identifiers import new_uuid
from kilonova.model.flavor import Flavor
from kilonova.model.instance import Instance, TaskState, VmState
from kilonova.model.keypair import Keypair
from kilonova.model.provider import Inventory
from kilonova.model.request_spec import RequestSpec, StoredRequest

FLAVOR = Flavor("1", "m1.tiny", vcpus=1, memory_mib=512, root_gib=1, extra_specs={"ssd": "true"})
ODD = "ü 漢字 😀 \"'\\ %s :x {} \x7f"


def server(name: str, **facts: Any) -> Instance:
    return Instance(0, new_uuid(), name, "p", "u", VmState.ACTIVE, FLAVOR, **facts)


def store(database: Database, *servers: Instance) -> list[str]:
    database.write(lambda tx: instances.insert(tx, [(one, None) for one in servers]))
    return [one.uuid for one in servers]


def names(database: Database, **query: Any) -> list[str]:
    with database.read() as connection:
        return [instance.name for instance in instance_lists.list_page(connection, InstanceQuery(**query))]


def test_text_json_booleans_and_microseconds_come_back_as_they_were(database: Database) -> None:
    body = {"text": ODD, "deep": [{"none": None, "true": True, "number": 2**53, "float": 0.1}]}
    flow = WorkflowRow(
        uuid=new_uuid(),
        kind="build",
        instance_uuid=new_uuid(),
        reservation_id="r",
        request_id="req",
        step="claim",
        facts=body,
    )
    asked = StoredRequest(new_uuid(), RequestSpec(FLAVOR, hints={ODD: (ODD,)}), None, "x" * 65_535)
    one = server(ODD, request_spec_uuid=asked.uuid, metadata={ODD: ODD})
    moments: list[datetime] = []

    def write(tx: Transaction) -> None:
        workflows.insert(tx, [flow], "me")
        request_specs.insert(tx, [asked])
        instances.insert(tx, [(one, None)])
        moments.append(tx.now)

    database.write(write)
    with database.read() as connection:
        stored = workflows.get(connection, flow.uuid, "me")
        assert stored is not None
        assert stored.facts == body
        found = instances.get(connection, one.uuid)
        assert request_specs.get_many(connection, [found]) == {one.uuid: asked}
    assert (found.name, found.metadata, found.flavor) == (ODD, {ODD: ODD}, FLAVOR)
    assert found.created_at == moments[0]
    assert moments[0].microsecond, "the clock of this machine should do better than a millisecond"


@pytest.mark.parametrize(("one", "other"), [("CUSTOM_A", "custom_a"), ("Straße", "Strasse"), ("a", "á"), ("a", "a ")])
def test_names_that_differ_in_anything_are_different(database: Database, one: str, other: str) -> None:
    def write(tx: Transaction) -> None:
        assert insert_missing(tx, t.traits, {"name": one, "created_at": tx.now})
        assert insert_missing(tx, t.traits, {"name": other, "created_at": tx.now})
        assert not insert_missing(tx, t.traits, {"name": one, "created_at": tx.now})

    database.write(write)
    with database.read() as connection:
        assert traits.get(connection, one).name == one
        assert traits.get(connection, other).name == other
        with pytest.raises(NotFound):
            traits.get(connection, one.swapcase() + "x")


def test_null_sorts_before_everything_and_pages_go_on_after_it(database: Database) -> None:
    made = [("b", "key2"), ("a", None), ("c", None), ("d", "key1")]
    store(database, *(server(name, key_name=key) for name, key in made))
    for descending in (False, True):
        sort = (("key_name", descending), ("name", False))
        everything = names(database, sort=sort)
        assert everything == (["b", "d", "a", "c"] if descending else ["a", "c", "d", "b"])
        with database.read() as connection:
            uuids = {one.name: one.uuid for one in instance_lists.list_page(connection, InstanceQuery())}
        walked: list[str] = []
        while len(walked) < 4:
            marker = uuids[walked[-1]] if walked else None
            walked += names(database, sort=sort, limit=1, marker=marker)
        assert walked == everything


def test_times_are_compared_to_the_microsecond(database: Database) -> None:
    store(database, server("one"))
    with database.read() as connection:
        created = connection.execute(sa.select(t.instances.c.created_at)).scalar_one()
    assert names(database, changed_since=created) == ["one"]
    assert names(database, changed_since=created.replace(microsecond=created.microsecond - 1)) == ["one"]
    assert names(database, changed_before=created.replace(microsecond=created.microsecond - 1)) == []


@pytest.mark.parametrize("number", [2**31, 2**63 - 1])
def test_a_number_that_no_row_has_is_not_found(database: Database, number: int) -> None:
    with database.read() as connection:
        for get in (services.get_by_id, compute_nodes.get_by_id, aggregates.get):
            with pytest.raises(NotFound):
                get(connection, number)


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


def test_a_failing_job_takes_nothing_along_and_leaves_nothing(database: Database) -> None:
    def twice(tx: Transaction) -> None:
        resource_classes.create(tx, "CUSTOM_ONE")
        tx.execute(sa.insert(t.resource_classes), {"name": "CUSTOM_ONE", "created_at": tx.now})

    class_futures = [database.submit(lambda tx, n=n: resource_classes.create(tx, f"CUSTOM_{n}")) for n in range(5)]
    broken = database.submit(twice)
    later = database.submit(lambda tx: resource_classes.create(tx, "CUSTOM_LATER"))
    assert isinstance(broken.exception(), sa.exc.IntegrityError)
    for future in (*class_futures, later):
        future.result()
    with database.read() as connection:
        found = {word.name for word in resource_classes.list_all(connection)}
    assert "CUSTOM_ONE" not in found
    assert {"CUSTOM_0", "CUSTOM_4", "CUSTOM_LATER"} <= found


def test_a_savepoint_undoes_its_block_alone(database: Database) -> None:
    def write(tx: Transaction) -> None:
        resource_classes.create(tx, "CUSTOM_BEFORE")
        with pytest.raises(sa.exc.IntegrityError), tx.savepoint():
            resource_classes.create(tx, "CUSTOM_INSIDE")
            tx.log("metrics", "CUSTOM_INSIDE", {})
            tx.execute(sa.insert(t.resource_classes), {"name": "VCPU", "created_at": tx.now})
        resource_classes.create(tx, "CUSTOM_AFTER")
        assert not tx.changes

    database.write(write)
    with database.read() as connection:
        found = {word.name for word in resource_classes.list_all(connection) if word.name.startswith("CUSTOM_")}
    assert found == {"CUSTOM_BEFORE", "CUSTOM_AFTER"}


def test_an_update_of_many_rows_counts_the_rows_that_matched(database: Database) -> None:
    column = t.traits.c
    update = ManyRows(
        {"name": column.name.type, "least": sa.BigInteger()},
        lambda given: (
            sa.update(t.traits)
            .where(column.name == given["name"], column.id >= given["least"])
            .values(updated_at=sa.bindparam("now", type_=t.Time))
        ),
    )

    def write(tx: Transaction) -> None:
        present = [{"name": "HW_CPU_X86_AVX", "least": 0}, {"name": "HW_CPU_X86_AVX2", "least": 0}]
        assert update.run(tx, present, now=tx.now) == 2
        assert update.run(tx, present, now=tx.now) == 2, "rows that have their new values already count, too"
        assert update.run(tx, [*present, {"name": "hw_cpu_x86_avx", "least": 0}], now=tx.now) == 2
        assert update.run(tx, [present[0], {"name": "HW_CPU_X86_SSE", "least": 2**62}], now=tx.now) == 1
        assert update.run(tx, [], now=tx.now) == 0
        changed = tx.execute(sa.select(column.name).where(column.updated_at == tx.now).order_by(column.name))
        assert changed.scalars().all() == ["HW_CPU_X86_AVX", "HW_CPU_X86_AVX2"]

    database.write(write)


def test_many_rows_are_inserted_with_what_they_bring_and_what_they_share(database: Database) -> None:
    insert = insert_many(
        t.consumers,
        {"uuid": "uuid", "project_id": "project", "user_id": "user"},
        generation=sa.literal(1),
        created_at=sa.bindparam("now", type_=t.Time),
    )
    rows = [{"uuid": f"consumer-{n}", "project": ODD, "user": "u"} for n in range(300)]

    def write(tx: Transaction) -> None:
        assert insert.run(tx, rows, now=tx.now) == 300
        found = tx.execute(sa.select(t.consumers).order_by(t.consumers.c.uuid)).mappings().all()
        assert {(row["project_id"], row["generation"], row["created_at"]) for row in found} == {(ODD, 1, tx.now)}

    database.write(write)


def test_a_generation_is_taken_once(database: Database) -> None:
    provider = database.write(lambda tx: providers.create(tx, new_uuid(), "one"))
    assert database.write(lambda tx: inventories.replace(tx, provider, [])) == 1
    with pytest.raises(ConcurrentUpdate):
        database.write(lambda tx: inventories.replace(tx, provider, []))


def test_states_are_changed_only_from_the_expected_ones(database: Database) -> None:
    uuid, *_ = store(database, server("one", task_state=TaskState.REBOOTING))
    database.write(lambda tx: instances.change(tx, uuid, expected_tasks={TaskState.REBOOTING}, task_state=None))
    with pytest.raises(Conflict):
        database.write(lambda tx: instances.change(tx, uuid, expected_tasks={TaskState.REBOOTING}, task_state=None))
    database.write(lambda tx: instances.change(tx, uuid, expected_tasks={None}, task_state=None))


def test_flavors_and_key_pairs_refuse_what_is_there(database: Database) -> None:
    pair = Keypair(0, "u", "key", "ssh", "00:11", "ssh-rsa AAAA")
    database.write(lambda tx: flavors.create(tx, FLAVOR))
    database.write(lambda tx: keypairs.create(tx, pair, limit=-1))
    with pytest.raises(Conflict):
        database.write(lambda tx: flavors.create(tx, FLAVOR))
    with pytest.raises(Conflict):
        database.write(lambda tx: keypairs.create(tx, pair, limit=-1))
    with database.read() as connection:
        assert flavors.get(connection, "1").extra_specs == {}
        assert keypairs.get(connection, "u", "key").public_key == pair.public_key
