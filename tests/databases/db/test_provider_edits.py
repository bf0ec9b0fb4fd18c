# SPDX-License-Identifier: Apache-2.0
"""Edits of providers in one batch: each gets its own answer, and mirrors get exactly the stored changes."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

from kilonova.db import allocations, inventories, provider_aggregates, provider_edits, provider_traits, providers
from kilonova.db.allocations import ConsumerRequest
from kilonova.db.database import Database
from kilonova.db.provider_edits import ProviderEdit
from kilonova.db.providers import NewProvider
from kilonova.errors import ConcurrentUpdate, Conflict, InvalidRequest, NotFound
from kilonova.identifiers import new_uuid
from kilonova.mirror.mirror import Mirror
from kilonova.model.provider import Inventory
from support.mirrors import providers_of

UUIDS = [f"00000000-0000-4000-8000-00000000000{number}" for number in range(4)]
SHAPE = [Inventory("VCPU", 8, allocation_ratio=1.1), Inventory("MEMORY_MB", 4096, reserved=512)]


def together(database: Database, submit: Callable[[], Sequence["Future[Any]"]]) -> list[Any]:
    """Submit writes as one batch. Returns the result or the exception of each."""
    busy, free = threading.Event(), threading.Event()

    def hold(_tx: Any) -> None:
        busy.set()
        assert free.wait(30)

    held = database.submit(hold)
    assert busy.wait(30)
    futures = submit()
    free.set()
    held.result()
    return [future.exception() or future.result() for future in futures]


def edit(database: Database, *edits: ProviderEdit) -> list[Any]:
    return together(database, lambda: [database.submit_batched(provider_edits.edit_batched, one) for one in edits])


def shaped(uuid: str, wanted: Sequence[Inventory] = SHAPE) -> ProviderEdit:
    return ProviderEdit(uuid, inventories.all_changed(wanted), [one.resource_class for one in wanted])


def test_one_that_is_refused_leaves_the_others_alone(database: Database) -> None:
    for number, uuid in enumerate(UUIDS[:2]):
        database.write(lambda tx, uuid=uuid, number=number: providers.create(tx, uuid, f"p{number}"))  # type: ignore[misc]
    mirror = Mirror.follow(database)
    seen = inventories.all_changed([Inventory("VCPU", 99)])
    traits = ["COMPUTE_NODE", "HW_CPU_X86_AVX"]
    outcomes = edit(
        database,
        shaped(UUIDS[0]),
        ProviderEdit(UUIDS[0], provider_edits.unless_changed(0, seen), ["VCPU"]),
        ProviderEdit(UUIDS[0], provider_traits.all_changed(traits), traits=traits),
        ProviderEdit(UUIDS[1], provider_traits.all_changed(["CUSTOM_NONE"]), traits=["CUSTOM_NONE"]),
        shaped(UUIDS[2]),
        ProviderEdit(UUIDS[1], provider_aggregates.all_changed([UUIDS[3], UUIDS[2]])),
        ProviderEdit(UUIDS[0], provider_aggregates.all_changed([UUIDS[2]])),
        provider_edits.renamed(UUIDS[1], "p0"),
        provider_edits.renamed(UUIDS[1], "p9"),
    )
    refused = {number: type(one) for number, one in enumerate(outcomes) if isinstance(one, Exception)}
    assert refused == {1: ConcurrentUpdate, 3: NotFound, 4: NotFound, 7: Conflict}
    assert outcomes[2].generation == 2
    with database.read() as connection:
        first, second = (providers.get(connection, uuid) for uuid in UUIDS[:2])
        stored = inventories.of_provider(connection, first.id)
        assert [one.inventory for one in stored] == SHAPE
        assert [word.name for word in provider_traits.of_provider(connection, first.id)] == sorted(traits)
        assert set(providers.aggregate_uuids(connection, second.id)) == {UUIDS[2], UUIDS[3]}
    assert (first.generation, second.generation, second.name) == (3, 1, "p9")
    assert providers_of(mirror.providers()) == providers_of(Mirror.follow(database).providers())


def test_names_may_change_places(database: Database) -> None:
    for number, uuid in enumerate(UUIDS[:2]):
        database.write(lambda tx, uuid=uuid, number=number: providers.create(tx, uuid, f"p{number}"))  # type: ignore[misc]
    outcomes = edit(
        database,
        provider_edits.renamed(UUIDS[0], "between"),
        provider_edits.renamed(UUIDS[1], "p0"),
        provider_edits.renamed(UUIDS[0], "p1"),
    )
    assert not [one for one in outcomes if isinstance(one, Exception)]
    with database.read() as connection:
        assert [providers.get(connection, uuid).name for uuid in UUIDS[:2]] == ["p1", "p0"]


def test_what_is_in_use_stays(database: Database) -> None:
    made = [database.write(lambda tx, uuid=uuid: providers.create(tx, uuid, uuid)) for uuid in UUIDS[:2]]  # type: ignore[misc]
    assert [one.generation for one in edit(database, *(shaped(one.uuid) for one in made))] == [1, 1]
    consumer = ConsumerRequest(new_uuid(), "p", "u", {UUIDS[0]: {"VCPU": 2}})
    database.write(lambda tx: allocations.replace(tx, [consumer]))
    dropped = edit(database, *(shaped(one.uuid, SHAPE[1:]) for one in made))
    assert isinstance(dropped[0], Conflict)
    assert "'VCPU'" in dropped[0].message
    assert dropped[1].generation == 2
    wanted = [consumer.consumer_uuid, consumer.consumer_uuid, new_uuid()]
    freed = together(database, lambda: [database.submit_batched(allocations.delete_batched, one) for one in wanted])
    assert freed == [True, False, False]
    with database.read() as connection:
        assert [one.used for one in inventories.of_provider(connection, made[0].id)] == [0, 0]


def test_providers_come_and_go_together(database: Database) -> None:
    mirror = Mirror.follow(database)
    wanted = [
        NewProvider(UUIDS[0], "a"),
        NewProvider(UUIDS[0], "b"),
        NewProvider(UUIDS[1], "a"),
        NewProvider(UUIDS[1], "c", UUIDS[1]),
        NewProvider(UUIDS[2], "d", new_uuid()),
        NewProvider(UUIDS[3], "e"),
    ]
    made = together(database, lambda: [database.submit_batched(providers.create_batched, one) for one in wanted])
    assert [type(one) for one in made[1:5]] == [Conflict, Conflict, InvalidRequest, InvalidRequest]
    database.write(lambda tx: providers.create(tx, UUIDS[1], "child", UUIDS[0]))
    child = database.write(lambda tx: providers.create(tx, UUIDS[2], "grandchild", UUIDS[1]))
    with database.read() as connection:
        assert [providers.get(connection, uuid) for uuid in (UUIDS[0], UUIDS[3])] == [made[0], made[5]]
        assert providers.get(connection, UUIDS[2]) == child
    assert (child.root_uuid, child.parent_uuid) == (UUIDS[0], UUIDS[1])
    gone = [UUIDS[3], UUIDS[3], UUIDS[0], UUIDS[2], new_uuid()]
    left = together(database, lambda: [database.submit_batched(providers.delete_batched, one) for one in gone])
    assert [type(one) for one in left] == [type(None), NotFound, Conflict, type(None), NotFound]
    assert providers_of(mirror.providers()) == providers_of(Mirror.follow(database).providers())
