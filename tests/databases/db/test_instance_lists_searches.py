# SPDX-License-Identifier: Apache-2.0
"""Searches for servers find the same on every kind of database, and no pattern keeps a database busy."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
import sqlalchemy as sa

from kilonova.db import aggregates, instance_lists, instances, services
from kilonova.db.core import tables as t
from kilonova.db.core.transaction import Transaction
from kilonova.db.database import Database
from kilonova.db.instance_lists import InstanceQuery, Zone
from kilonova.identifiers import new_uuid
from kilonova.model.flavor import Flavor
from kilonova.model.instance import Instance, VmState
from support.worst_texts import cpu_limit

NAMES = ("web-1", "Web-2", "db", "ünïcode", "a" * 254 + "!")


@pytest.fixture
def servers(database: Database) -> Database:
    flavor = Flavor("1", "f", 1, 512, 1)
    built = [
        Instance(
            0, new_uuid(), name, "wonder", "alice", VmState.ACTIVE, flavor, tags=("x", str(number % 2)), metadata=m
        )
        for number, name in enumerate(NAMES)
        for m in [{"role: a.b": name, "n": str(number)}]
    ]
    database.write(lambda tx: instances.insert(tx, [(each, None) for each in built]))
    return database


def found(database: Database, query: InstanceQuery) -> list[str]:
    with cpu_limit(3, query), database.read() as connection:
        return [instance.name for instance in instance_lists.list_page(connection, query)]


def test_zones_times_and_several_patterns(servers: Database) -> None:
    """A server without a host, or on one of no zone, is in no list of all zones or of the default one by accident."""
    launched = datetime(2026, 1, 31, 12, 0, 0, 999999)  # noqa: DTZ001  as stored: UTC

    def furnish(tx: Transaction) -> None:
        aggregates.add_host(tx, aggregates.create(tx, "west", "west").id, "node1", default_zone="nova")
        aggregates.add_host(tx, aggregates.create(tx, "no zone").id, "node2", default_zone="nova")
        for name, host in (("web-1", "node1"), ("Web-2", "node2")):
            uuid = tx.execute(sa.select(t.instances.c.uuid).where(t.instances.c.name == name)).scalar_one()
            instances.change(tx, uuid, host=host, node=host, launched_at=launched, description=f"on {host}")
        uuid = tx.execute(sa.select(t.instances.c.uuid).where(t.instances.c.name == "db")).scalar_one()
        instances.change(tx, uuid, availability_zone="west")

    servers.write(lambda tx: services.ensure(tx, "node1", services.COMPUTE))
    servers.write(lambda tx: services.ensure(tx, "node2", services.COMPUTE))
    servers.write(furnish)
    assert set(found(servers, InstanceQuery(zone=Zone("west")))) == {"web-1", "db"}
    assert found(servers, InstanceQuery(zone=Zone("nova", is_default=True))) == ["Web-2"]
    assert found(servers, InstanceQuery(zone=Zone("nova"))) == []
    second = launched.replace(microsecond=0)
    for begin, end, names in (
        (second, second + timedelta(seconds=1), {"web-1", "Web-2"}),
        (second - timedelta(seconds=1), second, set()),
        (launched, launched + timedelta(microseconds=1), {"web-1", "Web-2"}),
    ):
        assert set(found(servers, InstanceQuery(moments={"launched_at": (begin, end)}))) == names
    patterns = {"name": "(?i)web", "description": "node2$"}
    assert found(servers, InstanceQuery(patterns=patterns)) == ["Web-2"]
    assert found(servers, InstanceQuery(patterns={"description": "."}, limit=1)) in (["web-1"], ["Web-2"])


def test_names_tags_and_dates(servers: Database) -> None:
    by_name = InstanceQuery(sort=(("name", False),))
    assert found(servers, replace(by_name, patterns={"name": "^web"})) == ["web-1"]
    assert found(servers, replace(by_name, patterns={"name": "(?i)^web"}, limit=1)) in (["web-1"], ["Web-2"])
    assert set(found(servers, replace(by_name, patterns={"name": "ï|d"}))) == {"db", "ünïcode"}
    assert set(found(servers, replace(by_name, tags=("x", "0")))) == {"web-1", "db", NAMES[4]}
    assert set(found(servers, replace(by_name, not_tags=("x", "0")))) == {"Web-2", "ünïcode"}
    for border in (datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999)):  # noqa: DTZ001  as stored: UTC
        everything = len(NAMES) if border.year == 1 else 0
        assert len(found(servers, replace(by_name, changed_since=border))) == everything
        assert len(found(servers, replace(by_name, changed_before=border))) == len(NAMES) - everything


def test_metadata(servers: Database) -> None:
    for name in NAMES:
        assert found(servers, InstanceQuery(metadata={"role: a.b": name})) == [name]
    assert found(servers, InstanceQuery(metadata={"role: a.b": "WEB-1"})) == []
    assert found(servers, InstanceQuery(metadata={"n": "2"})) == ["db"]
    assert found(servers, InstanceQuery(metadata={"n": "2", "role: a.b": "web-1"})) == []
    assert found(servers, InstanceQuery(metadata={"N": "2"})) == []


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|aa)+$", "(.*a){12}$", "((a{1,9}){1,9})$"])
def test_a_nasty_pattern_is_none_of_the_database_s_business(servers: Database, pattern: str) -> None:
    assert found(servers, InstanceQuery(patterns={"name": pattern})) == []


def test_pages_by_every_column_are_complete(servers: Database) -> None:
    columns = ("name", "launched_at", "key_name", "vm_state", "uuid", "terminated_at", "description", "host", "node")
    query = InstanceQuery(sort=tuple((column, number % 2 == 0) for number, column in enumerate(columns)), limit=2)
    whole = found(servers, replace(query, limit=10))
    pages: list[str] = []
    marker: str | None = None
    with servers.read() as connection:
        while page := instance_lists.list_page(connection, replace(query, marker=marker)):
            pages += [instance.name for instance in page]
            marker = page[-1].uuid
    assert pages == whole
    assert sorted(whole) == sorted(NAMES)
