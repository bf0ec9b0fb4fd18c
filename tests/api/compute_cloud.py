# SPDX-License-Identifier: Apache-2.0
"""The compute API in this process on a database of its own. Tests say what hosts and servers there are."""

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
from kilonova.config.settings import Settings
from kilonova.db import (
    compute_nodes,
    instance_networks,
    instances,
    node_reports,
    provider_traits,
    providers,
    services,
)
from kilonova.db.core import tables as t
from kilonova.db.core.transaction import Transaction
from kilonova.db.database import Database
from kilonova.images.proxied import FixedImageProxy, ImageProxy
from kilonova.images.source import FixedImages
from kilonova.mirror.mirror import Mirror
from kilonova.model.flavor import Flavor
from kilonova.model.host import Capabilities, ComputeNode, NodeReport
from kilonova.model.instance import Instance, TaskState, VmState
from kilonova.model.network_info import NetworkInfo
from kilonova.model.provider import Inventory
from kilonova.network.client import NetworkClient
from support.api_client import Client
from support.processes import revive, silence

MAX_LIMIT = 5


@dataclass
class Cloud:
    """A cloud whose hosts and servers are rows that tests write."""

    database: Database
    mirror: Mirror
    app: WsgiApp

    @property
    def admin(self) -> Client:
        return Client(self.app)

    @property
    def member(self) -> Client:
        return Client(self.app, "alice:wonder")

    def as_user(self, user: str, project: str, *roles: str) -> Client:
        return Client(self.app, f"{user}:{project}", headers={"X-Roles": ",".join(roles)} if roles else {})

    def add_host(
        self,
        host: str,
        *nodes: str,
        vcpus: int = 8,
        memory_mib: int = 16384,
        reserved_mib: int = 512,
        disk_gib: int = 100,
        up: bool = True,
    ) -> ComputeNode:
        """Register a host with its hypervisors (one of the same name by default) and return the first."""
        inventories = (
            Inventory("VCPU", vcpus, allocation_ratio=4.0),
            Inventory("MEMORY_MB", memory_mib, reserved_mib),
            Inventory("DISK_GB", disk_gib),
        )
        capabilities = Capabilities("fake", 1000, (("x86_64", "fake", "hvm"),), {"arch": "x86_64"})

        def job(tx: Transaction) -> ComputeNode:
            services.ensure(tx, host, services.COMPUTE)
            found = []
            for node in nodes or (host,):
                said = NodeReport(host, node, capabilities, inventories, host_ip="10.0.0.7")
                found += compute_nodes.report_all(tx, [said])
                node_reports.ensure_all(tx, [node_reports.ReportedProvider(found[-1].uuid, node, inventories, ())])
            if up:
                revive(tx, host)
            return found[0]

        return self.database.write(job)

    def add_service(self, host: str, binary: str) -> None:
        self.database.write(lambda tx: services.ensure(tx, host, binary))

    def age(self, host: str, seconds: float = 3600) -> None:
        """Make a host silent for that long, which is noticed."""

        self.database.write(lambda tx: silence(tx, host, seconds))

    def add_server(
        self,
        host: str | None,
        *,
        name: str = "vm",
        node: str | None = None,
        project_id: str = "wonder",
        user_id: str = "alice",
        task_state: TaskState | None = None,
        group_uuid: str | None = None,
    ) -> str:
        """Store an active server on a host, and return its uuid. Claims nothing."""
        flavor = Flavor("1", "m1.tiny", vcpus=1, memory_mib=512, root_gib=1)
        uuid = str(uuid4())
        server = Instance(0, uuid, name, project_id, user_id, VmState.ACTIVE, flavor, task_state=task_state)

        def job(tx: Transaction) -> None:
            instances.insert(tx, [(server, group_uuid)])
            instances.change(tx, uuid, host=host, node=node or host)
            if group_uuid is not None:
                group = sa.select(t.server_groups.c.id).where(t.server_groups.c.uuid == group_uuid)
                member = {"group_id": tx.execute(group).scalar_one(), "instance_uuid": uuid}
                tx.execute(sa.insert(t.server_group_members), member)

        self.database.write(job)
        return uuid

    def set_interfaces(self, uuid: str, info: NetworkInfo) -> None:
        """Replace the cached interfaces of a server."""
        self.database.write(lambda tx: instance_networks.store_info(tx, uuid, info))

    def remove_server(self, uuid: str) -> None:
        self.database.write(lambda tx: instances.mark_deleted(tx, uuid))

    def use(self, node: ComputeNode, **used: int) -> None:
        """Set what is used of a hypervisor's inventories."""

        def job(tx: Transaction) -> None:
            for name, amount in used.items():
                tx.execute(
                    sa.update(t.inventories)
                    .where(
                        t.inventories.c.resource_provider_id
                        == sa.select(t.resource_providers.c.id)
                        .where(t.resource_providers.c.uuid == node.uuid)
                        .scalar_subquery(),
                        t.inventories.c.resource_class_id
                        == sa.select(t.resource_classes.c.id)
                        .where(t.resource_classes.c.name == name)
                        .scalar_subquery(),
                    )
                    .values(used=amount)
                )

        self.database.write(job)

    def provider(self, uuid: str) -> Mapping[str, Any]:
        """Return generation, traits and aggregates of a provider as the database has them."""
        with self.database.read() as connection:
            found = providers.get(connection, uuid)
            return {
                "generation": found.generation,
                "traits": {word.name for word in provider_traits.of_provider(connection, found.id)},
                "aggregates": set(providers.aggregate_uuids(connection, found.id)),
            }

    def everything(self) -> Mapping[str, Any]:
        """Return all rows of all tables but the log, to show that a refused request changed nothing."""
        skipped = {"change_log", "change_counter"}
        with self.database.read() as connection:
            return {
                table.name: sorted(map(repr, connection.execute(sa.select(table))))
                for table in t.metadata.sorted_tables
                if table.name not in skipped
            }


def start_cloud(
    url: str, image_proxy: ImageProxy | None = None, network: NetworkClient | None = None, **api: Any
) -> Cloud:
    """Serve the compute API on a database that has its tables. ``api``: settings of [api]."""
    conf = cfg.ConfigOpts()
    conf([], project="kilonova", default_config_files=[], default_config_dirs=[])
    settings = Settings(DatabaseSettings(url), api=ApiSettings("noauth2", max_limit=MAX_LIMIT, **api), conf=conf)
    database = Database(settings.database.connection)
    mirror = Mirror.follow(database)
    nothing = cast("Any", None)
    proxy = image_proxy or FixedImageProxy(FixedImages(()))
    backend = Backend(
        settings=settings,
        database=database,
        mirror=mirror,
        policy=policy_of(conf),
        conductor=nothing,
        images=nothing,
        image_proxy=proxy,
        network=network,
    )
    return Cloud(database, mirror, application_of(settings, backend))
