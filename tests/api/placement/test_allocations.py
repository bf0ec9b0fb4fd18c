# SPDX-License-Identifier: Apache-2.0
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pytest

from api.placement.placement_service import OWNER, PROJECT, USER, Placement, body_of
from support.databases import on_every_database


@on_every_database
def test_a_consumer_takes_moves_and_gives_back(placement: Placement) -> None:
    client, consumer = placement.admin, str(uuid4())
    first, second = placement.add("h1", VCPU=8, DISK_GB=100), placement.add("h2", VCPU=8)
    assert client.get(f"/allocations/{consumer}").body == {"allocations": {}}
    assert placement.claim(consumer, {first: {"VCPU": 2, "DISK_GB": 10}}).status == 204
    assert client.get(f"/allocations/{consumer}").body == {
        "allocations": {first: {"resources": {"VCPU": 2, "DISK_GB": 10}, "generation": 2}},
        "project_id": PROJECT,
        "user_id": USER,
        "consumer_generation": 1,
        "consumer_type": "INSTANCE",
    }
    assert placement.claim(consumer, {second: {"VCPU": 3}}, user_id="bob", consumer_type="MIGRATION").status == 204
    after = client.get(f"/allocations/{consumer}").body
    assert (after["user_id"], after["consumer_type"], after["consumer_generation"]) == ("bob", "MIGRATION", 2)
    assert placement.used(first) == {"VCPU": 0, "DISK_GB": 0}
    assert placement.used(second) == {"VCPU": 3}
    # Only what a request names moves on: freeing a provider leaves its generation alone.
    assert (placement.generation(first), placement.generation(second)) == (2, 2)
    assert client.get(f"/resource_providers/{second}/allocations").body == {
        "allocations": {consumer: {"resources": {"VCPU": 3}, "consumer_generation": 2}},
        "resource_provider_generation": 2,
    }
    assert client.delete(f"/allocations/{consumer}").status == 204
    assert client.delete(f"/allocations/{consumer}").status == 404
    assert placement.recorded() == placement.sums() == {}


def test_generations_of_consumers_are_checked_from_1_28(placement: Placement) -> None:
    client, consumer = placement.admin.at("1.28"), str(uuid4())
    uuid = placement.add("h1", VCPU=8)
    path = f"/allocations/{consumer}"
    assert client.put(path, body_of((uuid, {"VCPU": 1}), consumer_generation=3)).code == "concurrent_update"
    assert client.put(path, body_of((uuid, {"VCPU": 1}), consumer_generation=None)).status == 204
    again = client.put(path, body_of((uuid, {"VCPU": 2}), consumer_generation=None))
    assert again.code == "concurrent_update"
    assert "expected 1 but got null" in again.detail
    assert client.at("1.12").put(path, body_of((uuid, {"VCPU": 2}))).status == 204
    assert client.put(path, body_of(consumer_generation=2)).status == 204
    assert client.put(path, body_of((uuid, {"VCPU": 2}), consumer_generation=None)).status == 204


def test_every_request_format(placement: Placement) -> None:
    client, uuid = placement.admin, placement.add("h1", VCPU=8)
    items = {"allocations": [{"resource_provider": {"uuid": uuid}, "resources": {"VCPU": 1}}]}
    old, listed, keyed = str(uuid4()), str(uuid4()), str(uuid4())
    assert client.at("1.0").put(f"/allocations/{old}", items).status == 204
    unknown_project = "00000000-0000-0000-0000-000000000000"
    assert client.get(f"/allocations/{old}").body["project_id"] == unknown_project
    assert client.get(f"/allocations/{old}").body["consumer_type"] == "unknown"
    assert "user_id" not in client.at("1.11").get(f"/allocations/{old}").body
    assert client.at("1.8").put(f"/allocations/{listed}", items).status == 400
    assert client.at("1.8").put(f"/allocations/{listed}", {**items, **OWNER}).status == 204
    assert client.at("1.12").put(f"/allocations/{keyed}", {**items, **OWNER}).status == 400
    assert client.at("1.12").put(f"/allocations/{keyed}", body_of((uuid, {"VCPU": 1}))).status == 204
    assert client.at("1.12").put(f"/allocations/{keyed}", body_of()).status == 400
    mapped = body_of((uuid, {"VCPU": 1}), consumer_generation=1, mappings={"1": [uuid]})
    assert client.at("1.33").put(f"/allocations/{keyed}", mapped).status == 400
    assert client.at("1.34").put(f"/allocations/{keyed}", mapped).status == 204
    assert client.put(f"/allocations/{keyed.replace('-', '')}", {**mapped, "consumer_generation": 2}).status == 400
    typed = {**mapped, "consumer_generation": 2, "consumer_type": "INSTANCE"}
    assert client.put(f"/allocations/{keyed.replace('-', '')}", typed).status == 204
    assert placement.used(uuid) == {"VCPU": 3}


@pytest.mark.parametrize(
    ("amounts", "status", "said"),
    [
        ({"VCPU": 9}, 409, "exceed the capacity"),
        ({"DISK_GB": 5}, 409, "violate inventory constraints"),
        ({"DISK_GB": 60}, 409, "violate inventory constraints"),
        ({"DISK_GB": 15}, 409, "violate inventory constraints"),
        ({"VGPU": 1}, 409, "Inventory for 'VGPU'"),
        ({"CUSTOM_PONY": 1}, 400, "No such resource class CUSTOM_PONY"),
        ({"VCPU": 0}, 400, "JSON does not validate"),
        ({"VCPU": 2**70}, 409, "violate inventory constraints"),
        ({"vcpu": 1}, 400, "JSON does not validate"),
        ({}, 400, "JSON does not validate"),
    ],
)
def test_what_does_not_fit_is_refused_and_changes_nothing(
    placement: Placement, amounts: dict[str, int], status: int, said: str
) -> None:
    disk = {"total": 1000, "min_unit": 10, "max_unit": 50, "step_size": 10}
    uuid = placement.add("h1", VCPU={"total": 4, "allocation_ratio": 2.0}, DISK_GB=disk)
    before = placement.everything()
    answer = placement.claim(str(uuid4()), {uuid: {**amounts, **({"MEMORY_MB": 1} if "MEMORY_MB" in amounts else {})}})
    assert answer.status == status
    assert said in answer.detail
    assert placement.everything() == before


def test_providers_and_consumers_must_be_named_well(placement: Placement) -> None:
    uuid = placement.add("h1", VCPU=8)
    missing = str(uuid4())
    answer = placement.claim(str(uuid4()), {missing: {"VCPU": 1}})
    assert (answer.status, answer.detail) == (
        400,
        f"Allocation for resource provider '{missing}' that does not exist.",
    )
    assert (
        placement.admin.put("/allocations/spam", body_of((uuid, {"VCPU": 1}))).detail == "Malformed consumer_uuid: spam"
    )


@on_every_database
def test_several_consumers_are_written_together_or_not_at_all(placement: Placement) -> None:
    client, first, second = placement.admin, str(uuid4()), str(uuid4())
    source, target = placement.add("h1", VCPU=4), placement.add("h2", VCPU=4)
    assert placement.claim(first, {source: {"VCPU": 4}}).status == 204
    # As a migration does: one consumer takes over what the other leaves, in one step, on a full provider.
    moved = {
        second: body_of((source, {"VCPU": 4}), consumer_generation=None, consumer_type="MIGRATION"),
        first: body_of((target, {"VCPU": 4}), consumer_generation=1, consumer_type="INSTANCE"),
    }
    too_much = {
        **moved,
        str(uuid4()): body_of((target, {"VCPU": 1}), consumer_generation=None, consumer_type="INSTANCE"),
    }
    before = placement.everything()
    assert client.post("/allocations", too_much).status == 409
    assert placement.everything() == before
    assert client.post("/allocations", moved).status == 204
    assert (placement.used(source), placement.used(target)) == ({"VCPU": 4}, {"VCPU": 4})
    assert placement.recorded() == placement.sums()
    gone = {second: body_of(consumer_generation=1, consumer_type="MIGRATION")}
    assert client.post("/allocations", gone).status == 204
    assert placement.used(source) == {"VCPU": 0}
    assert client.get(f"/allocations/{second}").body == {"allocations": {}}
    assert client.at("1.12").post("/allocations", moved).status == 404


@on_every_database
def test_a_crowd_takes_exactly_what_there_is(placement: Placement) -> None:
    uuid = placement.add("h1", VCPU=40, MEMORY_MB=10_000)

    def claim(_: int) -> int:
        return placement.claim(str(uuid4()), {uuid: {"VCPU": 2, "MEMORY_MB": 10}}).status

    with ThreadPoolExecutor(16) as pool:
        statuses = sorted(pool.map(claim, range(48)))
    assert statuses == [204] * 20 + [409] * 28
    assert placement.used(uuid) == {"VCPU": 40, "MEMORY_MB": 200}
    assert placement.recorded() == placement.sums()
    assert placement.generation(uuid) == 1 + 20


@on_every_database
def test_one_consumer_written_from_everywhere_changes_step_by_step(placement: Placement) -> None:
    """At one generation one writer wins; without generations (1.12) the last one does."""
    uuid, consumer = placement.add("h1", VCPU=100), str(uuid4())

    def put(amount: int) -> int:
        wanted = body_of((uuid, {"VCPU": amount}), consumer_generation=None)
        return placement.admin.at("1.28").put(f"/allocations/{consumer}", wanted).status

    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(put, range(1, 9))) == [204] + [409] * 7

    def overwrite(amount: int) -> int:
        return placement.admin.at("1.12").put(f"/allocations/{consumer}", body_of((uuid, {"VCPU": amount}))).status

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(overwrite, range(1, 17))) == {204}
    assert placement.recorded() == placement.sums()
