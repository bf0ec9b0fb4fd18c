# SPDX-License-Identifier: Apache-2.0
"""Servers are sorted and compared alike on every kind of database."""

from typing import Any

import sqlalchemy as sa

from kilonova.db import (
    instance_lists,
    instances,
)
from kilonova.db.core import tables as t
from kilonova.db.database import Database
from kilonova.db.instance_lists import InstanceQuery
from kilonova.identifiers import new_uuid
from kilonova.model.flavor import Flavor
from kilonova.model.instance import Instance, VmState

FLAVOR = Flavor("1", "m1.tiny", vcpus=1, memory_mib=512, root_gib=1, extra_specs={"ssd": "true"})


def server(name: str, **facts: Any) -> Instance:
    return Instance(0, new_uuid(), name, "p", "u", VmState.ACTIVE, FLAVOR, **facts)


def store(database: Database, *servers: Instance) -> list[str]:
    database.write(lambda tx: instances.insert(tx, [(one, None) for one in servers]))
    return [one.uuid for one in servers]


def names(database: Database, **query: Any) -> list[str]:
    with database.read() as connection:
        return [instance.name for instance in instance_lists.list_page(connection, InstanceQuery(**query))]


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
