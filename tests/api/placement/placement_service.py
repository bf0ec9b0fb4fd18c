# SPDX-License-Identifier: Apache-2.0
"""The Placement API in this process on a database of its own."""

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast
from urllib.parse import unquote_to_bytes
from uuid import uuid4

import orjson
import sqlalchemy as sa
from oslo_config import cfg

from kilonova.api.application import WsgiApp, family_app, mount
from kilonova.api.auth import noauth2
from kilonova.api.backend import Backend
from kilonova.api.placement.family import RULES, PlacementFamily
from kilonova.api.policy import Policy
from kilonova.config import ApiSettings, PlacementSettings, Settings
from kilonova.db import tables as t
from kilonova.db.database import Database
from kilonova.mirror.mirror import Mirror

LATEST = "1.39"
PROJECT, USER = "wonder", "alice"


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    raw: bytes

    @property
    def body(self) -> Any:
        return orjson.loads(self.raw) if self.raw else None

    @property
    def error(self) -> Mapping[str, Any]:
        (error,) = self.body["errors"]
        assert error["status"] == self.status
        return cast("Mapping[str, Any]", error)

    @property
    def detail(self) -> str:
        return str(self.error["detail"])

    @property
    def code(self) -> str:
        return str(self.error["code"]).removeprefix("placement.")


@dataclass(frozen=True)
class Client:
    """Sends requests as one user; ``version`` None sends no version header."""

    app: WsgiApp
    token: str = "admin"
    version: str | None = LATEST
    headers: Mapping[str, str] = field(default_factory=dict)

    def at(self, version: str | None) -> "Client":
        return replace(self, version=version)

    def as_user(self, token: str, **headers: str) -> "Client":
        return replace(self, token=token, headers=headers)

    def send(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """Send a request; a body that is bytes goes out as it is. A header that is empty is left out."""
        raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        path, _, query = path.partition("?")
        path = unquote_to_bytes(path).decode("latin-1")  # as WSGI hands paths over
        environ: dict[str, Any] = {
            "REQUEST_METHOD": method,
            "SCRIPT_NAME": "",
            "PATH_INFO": f"/placement{path}",
            "QUERY_STRING": query,
            "SERVER_NAME": "cloud",
            "SERVER_PORT": "80",
            "SERVER_PROTOCOL": "HTTP/1.1",
            "REMOTE_ADDR": "127.0.0.1",
            "wsgi.url_scheme": "http",
            "wsgi.input": io.BytesIO(raw),
            "wsgi.errors": io.StringIO(),
            "HTTP_HOST": "cloud",
        }
        if raw:
            environ |= {"CONTENT_TYPE": "application/json", "CONTENT_LENGTH": str(len(raw))}
        if self.token:
            environ["HTTP_X_AUTH_TOKEN"] = self.token
        if self.version is not None:
            environ["HTTP_OPENSTACK_API_VERSION"] = f"placement {self.version}"
        for name, value in {**self.headers, **headers}.items():
            key = name.upper().replace("-", "_")
            key = key if key in {"CONTENT_TYPE", "CONTENT_LENGTH"} else f"HTTP_{key}"
            environ[key] = value
            if not value:
                del environ[key]
        seen: dict[str, Any] = {}

        def start(status: str, response_headers: list[tuple[str, str]], *_: object) -> None:
            seen["status"] = int(status.split(maxsplit=1)[0])
            seen["headers"] = {name.lower(): value for name, value in response_headers}

        raw_answer = b"".join(self.app(environ, start))
        return Answer(seen["status"], seen["headers"], raw_answer)

    def get(self, path: str, **headers: str) -> Answer:
        return self.send("GET", path, **headers)

    def post(self, path: str, body: Any = None, **headers: str) -> Answer:
        return self.send("POST", path, body, **headers)

    def put(self, path: str, body: Any = None, **headers: str) -> Answer:
        return self.send("PUT", path, body, **headers)

    def delete(self, path: str, **headers: str) -> Answer:
        return self.send("DELETE", path, **headers)


@dataclass
class Placement:
    database: Database
    mirror: Mirror
    app: WsgiApp

    @property
    def admin(self) -> Client:
        return Client(self.app)

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


def start_placement(url: str, *, oslo_policy: Mapping[str, Any] | None = None, **settings: Any) -> Placement:
    """Serve Placement on a database that has its tables."""
    conf = cfg.ConfigOpts()
    conf([], project="kilonova", default_config_files=[], default_config_dirs=[])
    whole = Settings(url, api=ApiSettings("noauth2"), placement=PlacementSettings(**settings), conf=conf)
    policy = Policy(conf, RULES)
    for name, value in (oslo_policy or {}).items():
        conf.set_override(name, value, "oslo_policy")
    if oslo_policy:
        policy = Policy(conf, RULES)
    database = Database(whole.database_url)
    mirror = Mirror.follow(database)
    nothing = cast("Any", None)
    backend = Backend(whole, database, mirror, policy, conductor=nothing, images=nothing)
    app = noauth2(family_app(PlacementFamily(), backend), plain_roles=())
    return Placement(database, mirror, mount({"/placement": app}))
