# SPDX-License-Identifier: Apache-2.0
"""The audit finds, explains and repairs rows that SQL has broken, and the change log names the repaired rows."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
import sqlalchemy as sa

from kilonova.db import aggregates, allocations, inventories, providers
from kilonova.db.allocations import ConsumerRequest
from kilonova.db.audits import audit
from kilonova.db.audits.finding import Finding
from kilonova.db.core.transaction import Transaction
from kilonova.db.database import Database
from kilonova.identifiers import new_uuid
from kilonova.mirror.mirror import Mirror
from kilonova.model.provider import Inventory
from support.cell import host, start_cell
from support.mirrors import assert_equal
from support.world import check_books

ABSENT = "11111111-1111-4111-8111-111111111111"


@dataclass(frozen=True)
class World:
    """Three hosts: two with a server each, of one anti-affinity group, and in one aggregate; one is empty."""

    database: Database
    servers: tuple[str, ...]
    empty: str

    def break_(self, *statements: str) -> None:
        """Run statements with foreign keys off; they may contain ``:server``, ``:empty`` and ``:absent``."""
        break_database(self.database, *statements, server=self.servers[0], empty=self.empty, absent=ABSENT)

    def findings(self) -> tuple[Finding, ...]:
        with self.database.read() as connection:
            return audit.find_all(connection)


def break_database(database: Database, *statements: str, **names: str) -> None:
    engine = sa.create_engine(database.url)
    with engine.begin() as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(sa.text("SET session_replication_role = replica"))
        elif engine.dialect.name != "sqlite":
            connection.execute(sa.text("SET FOREIGN_KEY_CHECKS = 0"))
        for statement in statements:
            used = {name: value for name, value in names.items() if f":{name}" in statement}
            assert connection.execute(sa.text(statement), used).rowcount, statement
    engine.dispose()


@pytest.fixture
def world(database: Database, tmp_path: Path) -> World:
    hosts = ("node1", "node2", "node3")
    cell = start_cell(tmp_path, tuple(map(host, hosts)), database=database)
    servers = tuple(cell.boot(2, group=cell.add_group("anti-affinity")))
    cell.bus.run()
    taken = {str(cell.instance(uuid).host) for uuid in servers}
    (empty,) = set(hosts) - taken

    def join(tx: Transaction) -> None:
        fast = aggregates.create(tx, "fast")
        for name in sorted(taken):
            aggregates.add_host(tx, fast.id, name, default_zone="nova")

    database.write(join)
    return World(database, servers, empty)


_VCPU = "(SELECT id FROM resource_classes WHERE name = 'VCPU')"
_TAKEN = "(SELECT MIN(resource_provider_id) FROM allocations)"
_EMPTY = "(SELECT id FROM resource_providers WHERE name = :empty)"
_STRAY = f"INSERT INTO allocations (consumer_uuid, resource_provider_id, resource_class_id, used, created_at) \
SELECT :absent, resource_provider_id, resource_class_id, 2, created_at FROM inventories \
WHERE resource_class_id = {_VCPU} AND resource_provider_id = {_EMPTY}"
_CONSUMER = "INSERT INTO consumers (uuid, project_id, user_id, consumer_type, generation, created_at) \
SELECT :absent, 'p', 'u', 'INSTANCE', 1, created_at FROM consumers WHERE uuid = :server"

BREAKS: Mapping[str, tuple[list[str], list[str]]] = {
    "a capacity": (
        [f"UPDATE inventories SET capacity = capacity + 7 WHERE resource_class_id = {_VCPU}"],
        ["capacity", "capacity", "capacity"],
    ),
    "what is used": (
        [f"UPDATE inventories SET used = used + 1 WHERE resource_class_id = {_VCPU}"],
        ["usage", "usage", "usage"],
    ),
    "an inventory in use is gone": (
        [f"DELETE FROM inventories WHERE resource_class_id = {_VCPU} AND resource_provider_id = {_TAKEN}"],
        ["inventory"],
    ),
    "a server's consumer is gone": (["DELETE FROM consumers WHERE uuid = :server"], ["consumer"]),
    "allocations without an owner": ([_STRAY], ["consumer", "usage"]),
    "allocations of no server": ([_CONSUMER, _STRAY], ["allocation", "usage"]),
    "a consumer of nothing": ([_CONSUMER], ["consumer"]),
    "a server vanished": (
        ["UPDATE instances SET deleted = NOT deleted, host = NULL, node = NULL WHERE uuid = :server"],
        ["allocation", "group", "quota"],
    ),
    "a server lost its host": (
        ["UPDATE instances SET host = NULL, node = NULL WHERE uuid = :server"],
        ["allocation", "group"],
    ),
    "a server moved": (
        ["UPDATE instances SET host = :empty, node = :empty WHERE uuid = :server"],
        ["allocation", "server", "group"],
    ),
    "a server's allocations are gone": (
        ["DELETE FROM allocations WHERE consumer_uuid = :server"],
        ["usage", "usage", "usage", "consumer", "server"],
    ),
    "a hypervisor is gone": (["DELETE FROM compute_nodes WHERE host = :empty"], ["provider"]),
    "a provider is gone": (
        [
            f"DELETE FROM inventories WHERE resource_provider_id = {_EMPTY}",
            f"DELETE FROM resource_provider_traits WHERE resource_provider_id = {_EMPTY}",
            "DELETE FROM resource_providers WHERE name = :empty",
        ],
        ["node"],
    ),
    "aggregates are gone": (["DELETE FROM resource_provider_aggregates"], ["aggregate", "aggregate"]),
    "an aggregate too many": (
        [f"INSERT INTO resource_provider_aggregates SELECT {_EMPTY}, id FROM placement_aggregates"],
        ["aggregate"],
    ),
    "members are miscounted": (["UPDATE server_group_hosts SET members = 5"], ["group"]),
    "members are forgotten": (["DELETE FROM server_group_hosts"], ["group"]),
    "a quota counts too much": (["UPDATE quotas SET ram = ram + 1"], ["quota"]),
    "a quota counts nothing": (["DELETE FROM quotas"], ["quota"]),
    "a group is bound": (["UPDATE server_groups SET host = 'node9'"], ["group"]),
}


@pytest.mark.parametrize("broken", BREAKS)
def test_what_is_broken_is_found_explained_and_mended(world: World, broken: str) -> None:
    assert world.findings() == ()
    statements, kinds = BREAKS[broken]
    world.break_(*statements)
    found = world.findings()
    assert sorted(finding.kind for finding in found) == sorted(kinds)
    assert all(finding.where and finding.what and finding.why and finding.remedy for finding in found)
    followed = Mirror.follow(world.database)
    for finding in found:
        world.database.write(finding.repair)
    assert world.findings() == ()
    followed.catch_up()
    assert_equal(followed, Mirror.follow(world.database))
    with world.database.read() as connection:
        check_books(connection)


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_mending_twice_does_no_harm(world: World) -> None:
    for broken in ("what is used", "allocations without an owner", "members are miscounted"):
        world.break_(*BREAKS[broken][0])
    for finding in world.findings() * 2:
        world.database.write(finding.repair)
    assert world.findings() == ()


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_what_another_nova_placed_here_is_not_held_against_our_servers(open_database: Callable[[], Database]) -> None:
    database = open_database()
    uuid = new_uuid()

    def place(tx: Transaction) -> None:
        provider = providers.create(tx, uuid, "compute-of-another-nova")
        inventories.replace(tx, provider, [Inventory("VCPU", 8), Inventory("MEMORY_MB", 4096)])
        allocations.replace(tx, [ConsumerRequest(new_uuid(), "p", "u", {uuid: {"VCPU": 2}}, "INSTANCE")])

    database.write(place)
    with database.read() as connection:
        assert audit.find_all(connection) == ()


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_the_books_stay_right_through_builds_failures_and_deletes(world: World, tmp_path: Path) -> None:
    cell = start_cell(tmp_path, tuple(map(host, ("node1", "node2", "node3"))), database=world.database)
    built = cell.boot(5)
    for _ in range(4):
        cell.bus.step()
        assert world.findings() == ()
    cell.boot(50)
    cell.bus.run()
    for uuid in built[:3]:
        cell.delete(uuid)
        assert world.findings() == ()
        cell.bus.run()
        assert world.findings() == ()
