# SPDX-License-Identifier: Apache-2.0
"""After any requests the mirror that followed them equals one that is loaded afresh."""

import random
from typing import Any
from uuid import uuid4

import numpy as np
import pytest

from api.placement.placement_service import PROJECT, USER, Placement
from kilonova.mirror.mirror import Mirror
from kilonova.placement.provider_table import ProviderTable

TRAITS = ("HW_CPU_X86_AVX", "HW_CPU_X86_SSE", "MISC_SHARES_VIA_AGGREGATE")
CLASSES = ("VCPU", "MEMORY_MB", "DISK_GB")
AGGREGATES = tuple(str(uuid4()) for _ in range(3))


def plain(table: ProviderTable) -> dict[str, Any]:
    """Everything that a table says of each provider, by name instead of by row."""
    figures = {
        name: getattr(table, name)
        for name in ("total", "reserved", "min_unit", "max_unit", "step_size", "allocation_ratio", "capacity", "used")
    }
    return {
        uuid: {
            "root": table.uuids[table.root[row]],
            "parent": None if table.parent[row] < 0 else table.uuids[table.parent[row]],
            "traits": {name for name, bit in table.trait_rows.items() if table.trait_bits[bit, row]},
            "aggregates": {name for name, bit in table.aggregate_rows.items() if table.aggregate_bits[bit, row]},
            "inventories": {
                table.resource_classes[column]: {name: array[row, column] for name, array in figures.items()}
                for column in np.flatnonzero(table.has_inventory[row])
            },
        }
        for row, uuid in enumerate(table.uuids)
    }


class Story:
    """A client that does something at random, again and again."""

    def __init__(self, placement: Placement, seed: int) -> None:
        self.placement = placement
        self.random = random.Random(seed)
        self.providers: list[str] = []
        self.consumers = [str(uuid4()) for _ in range(4)]

    def step(self) -> int:
        kinds = [self.create, self.move, self.drop, self.set_inventories, self.set_traits, self.set_aggregates]
        return self.random.choice([*kinds, self.claim, self.claim, self.claim, self.release, self.reshape])()

    def some(self) -> str:
        return self.random.choice([*self.providers, str(uuid4())])

    def generation(self, uuid: str) -> int:
        answer = self.placement.admin.get(f"/resource_providers/{uuid}")
        return answer.body["generation"] if answer.status == 200 else 0

    def create(self) -> int:
        uuid = str(uuid4())
        parent = self.random.choice([None, *self.providers])
        body = {"name": uuid, "uuid": uuid, "parent_provider_uuid": parent}
        self.providers.append(uuid)
        return self.placement.admin.post("/resource_providers", body).status

    def move(self) -> int:
        body = {"name": str(uuid4()), "parent_provider_uuid": self.random.choice([None, *self.providers])}
        return self.placement.admin.put(f"/resource_providers/{self.some()}", body).status

    def drop(self) -> int:
        return self.placement.admin.delete(f"/resource_providers/{self.some()}").status

    def inventories(self) -> dict[str, Any]:
        names = self.random.sample(CLASSES, self.random.randint(0, 3))
        return {name: {"total": self.random.randint(1, 8), "allocation_ratio": 1.5} for name in names}

    def set_inventories(self) -> int:
        uuid = self.some()
        body = {"inventories": self.inventories(), "resource_provider_generation": self.generation(uuid)}
        return self.placement.admin.put(f"/resource_providers/{uuid}/inventories", body).status

    def set_traits(self) -> int:
        uuid, traits = self.some(), self.random.sample(TRAITS, self.random.randint(0, 2))
        body = {"traits": traits, "resource_provider_generation": self.generation(uuid)}
        return self.placement.admin.put(f"/resource_providers/{uuid}/traits", body).status

    def set_aggregates(self) -> int:
        uuids = self.random.sample(AGGREGATES, self.random.randint(0, 2))
        return self.placement.admin.at("1.18").put(f"/resource_providers/{self.some()}/aggregates", uuids).status

    def allocations(self) -> dict[str, Any]:
        named = {self.some() for _ in range(self.random.randint(0, 2))}
        return {uuid: {"resources": {self.random.choice(CLASSES): self.random.randint(1, 3)}} for uuid in named}

    def wanted(self, consumer: str) -> dict[str, Any]:
        present = self.placement.admin.get(f"/allocations/{consumer}").body
        return {
            "allocations": self.allocations(),
            "project_id": PROJECT,
            "user_id": USER,
            "consumer_generation": present.get("consumer_generation"),
            "consumer_type": "INSTANCE",
        }

    def claim(self) -> int:
        some = self.random.sample(self.consumers, self.random.randint(1, 2))
        return self.placement.admin.post("/allocations", {uuid: self.wanted(uuid) for uuid in some}).status

    def release(self) -> int:
        return self.placement.admin.delete(f"/allocations/{self.random.choice(self.consumers)}").status

    def reshape(self) -> int:
        shapes = {
            uuid: {"inventories": self.inventories(), "resource_provider_generation": self.generation(uuid)}
            for uuid in {self.some() for _ in range(2)}
        }
        moved = {uuid: self.wanted(uuid) for uuid in self.random.sample(self.consumers, self.random.randint(0, 2))}
        service = self.placement.admin.as_user("nova", X_Roles="service")
        return service.post("/reshaper", {"inventories": shapes, "allocations": moved}).status


@pytest.mark.parametrize("kind", ["sqlite", "postgresql", "mariadb"], indirect=True)
def test_a_mirror_that_followed_equals_one_that_is_loaded(placement: Placement) -> None:
    story = Story(placement, seed=7)
    done: dict[tuple[str, int], int] = {}
    for turn in range(400):
        before = placement.recorded()
        status = story.step()
        done["status", status] = done.get(("status", status), 0) + 1
        assert status in {200, 201, 204, 400, 404, 409}
        if status >= 400:
            assert placement.recorded() == before
        if turn % 20 == 0:
            assert plain(placement.mirror.providers()) == plain(Mirror.follow(placement.database).providers())
            assert placement.recorded() == placement.sums()
    assert plain(placement.mirror.providers()) == plain(Mirror.follow(placement.database).providers())
    assert done["status", 204] > 40
