# SPDX-License-Identifier: Apache-2.0
"""The Placement API in this process on a database of its own."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast
from uuid import uuid4

import sqlalchemy as sa
from oslo_config import cfg

from kilonova.api.application import WsgiApp
from kilonova.api.backend import Backend
from kilonova.cli.wiring.apis import application_of, policy_of
from kilonova.config.api import ApiSettings
from kilonova.config.database import DatabaseSettings
from kilonova.config.placement import PlacementSettings
from kilonova.config.settings import Settings
from kilonova.db.core import tables as t
from kilonova.db.database import Database
from kilonova.mirror.mirror import Mirror
from support.api_client import Answer, Client

LATEST = "1.39"
PROJECT, USER = "wonder", "alice"
OWNER = {"project_id": PROJECT, "user_id": USER}


@dataclass
class Placement:
    database: Database
    mirror: Mirror
    app: WsgiApp

    @property
    def admin(self) -> Client:
        return Client(self.app, version=LATEST, api="placement")

    def add(
        self,
        name: str,
        parent: str | None = None,
        *,
        traits: tuple[str, ...] = (),
        aggregates: tuple[str, ...] = (),
        **totals: int | Mapping[str, Any],
    ) -> str:
        """Create a provider over the API and return its uuid. ``totals``: resource class → total or whole inventory."""
        uuid, client = str(uuid4()), self.admin
        body = {"name": name, "uuid": uuid, "parent_provider_uuid": parent}
        assert client.post("/resource_providers", body).status == 200
        for kind, names in (("traits", traits), ("resource_classes", totals)):
            for custom in names:
                if custom.startswith("CUSTOM_"):
                    assert client.put(f"/{kind}/{custom}").status in {201, 204}
        path = f"/resource_providers/{uuid}"
        if traits:
            body = {"traits": list(traits), "resource_provider_generation": self.generation(uuid)}
            assert client.put(f"{path}/traits", body).status == 200
        if aggregates:
            body = {"aggregates": list(aggregates), "resource_provider_generation": self.generation(uuid)}
            assert client.put(f"{path}/aggregates", body).status == 200
        if totals:
            found = self.set_inventories(
                uuid, {name: {"total": what} if isinstance(what, int) else what for name, what in totals.items()}
            )
            assert found.status == 200, found.raw
        return uuid

    def set_inventories(self, uuid: str, inventories: Mapping[str, Any]) -> Answer:
        body = {"inventories": inventories, "resource_provider_generation": self.generation(uuid)}
        return self.admin.put(f"/resource_providers/{uuid}/inventories", body)

    def generation(self, uuid: str) -> int:
        return int(self.admin.get(f"/resource_providers/{uuid}").body["generation"])

    def used(self, uuid: str) -> dict[str, int]:
        return dict(self.admin.get(f"/resource_providers/{uuid}/usages").body["usages"])

    def claim(self, consumer: str, allocations: Mapping[str, Mapping[str, int]], **changes: Any) -> Answer:
        """Set a consumer's allocations, at the generation it has now unless ``changes`` say another."""
        present = self.admin.get(f"/allocations/{consumer}").body
        body = {
            "allocations": {uuid: {"resources": resources} for uuid, resources in allocations.items()},
            "project_id": PROJECT,
            "user_id": USER,
            "consumer_generation": present.get("consumer_generation"),
            "consumer_type": "INSTANCE",
        }
        return self.admin.put(f"/allocations/{consumer}", {**body, **changes})

    def sums(self) -> dict[tuple[int, int], int]:
        """What the allocations of each inventory add up to."""
        cell = (t.allocations.c.resource_provider_id, t.allocations.c.resource_class_id)
        with self.database.read() as connection:
            rows = connection.execute(sa.select(*cell, sa.func.sum(t.allocations.c.used)).group_by(*cell)).all()
        return {(row[0], row[1]): int(row[2]) for row in rows}

    def recorded(self) -> dict[tuple[int, int], int]:
        """What each inventory says is used of it, if anything."""
        table = t.inventories.c
        with self.database.read() as connection:
            rows = connection.execute(sa.select(table.resource_provider_id, table.resource_class_id, table.used)).all()
        return {(row[0], row[1]): row[2] for row in rows if row[2]}

    def everything(self) -> Mapping[str, Any]:
        """Return all rows of Placement's tables, to show that a refused request changed nothing."""
        with self.database.read() as connection:
            return {table.name: sorted(map(repr, connection.execute(sa.select(table)))) for table in _TABLES}


_TABLES = (
    t.resource_classes,
    t.traits,
    t.resource_providers,
    t.inventories,
    t.resource_provider_traits,
    t.placement_aggregates,
    t.resource_provider_aggregates,
    t.consumers,
    t.allocations,
)


def body_of(*allocations: tuple[str, dict[str, int]], **more: Any) -> dict[str, Any]:
    """Return the body that sets the allocations of one consumer."""
    return {"allocations": {uuid: {"resources": resources} for uuid, resources in allocations}, **OWNER, **more}


def start_placement(url: str, *, oslo_policy: Mapping[str, Any] | None = None, **settings: Any) -> Placement:
    """Serve Placement on a database that has its tables."""
    conf = cfg.ConfigOpts()
    conf([], project="kilonova", default_config_files=[], default_config_dirs=[])
    answers = PlacementSettings(**settings)
    whole = Settings(DatabaseSettings(url), api=ApiSettings("noauth2"), placement=answers, conf=conf)
    policy = policy_of(conf)
    for name, value in (oslo_policy or {}).items():
        conf.set_override(name, value, "oslo_policy")
    if oslo_policy:
        policy = policy_of(conf)
    database = Database(whole.database.connection)
    mirror = Mirror.follow(database)
    nothing = cast("Any", None)
    backend = Backend(
        settings=whole, database=database, mirror=mirror, policy=policy, conductor=nothing, images=nothing
    )
    return Placement(database, mirror, application_of(whole, backend))
