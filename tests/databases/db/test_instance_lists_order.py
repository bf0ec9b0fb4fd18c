# SPDX-License-Identifier: Apache-2.0
"""Servers are sorted and compared alike on every kind of database."""

from typing import Any

import sqlalchemy as sa

from kilonova.db import instance_lists
from kilonova.db.core import tables as t
from kilonova.db.database import Database
from kilonova.db.instance_lists import InstanceQuery
from support.stored_servers import store_server


def names(database: Database, **query: Any) -> list[str]:
    with database.read() as connection:
        return [instance.name for instance in instance_lists.list_page(connection, InstanceQuery(**query))]


def test_null_sorts_before_everything_and_pages_go_on_after_it(database: Database) -> None:
    made = [("b", "key2"), ("a", None), ("c", None), ("d", "key1")]
    for name, key in made:
        store_server(database, name=name, key_name=key)
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
    store_server(database, name="one")
    with database.read() as connection:
        created = connection.execute(sa.select(t.instances.c.created_at)).scalar_one()
    assert names(database, changed_since=created) == ["one"]
    assert names(database, changed_since=created.replace(microsecond=created.microsecond - 1)) == ["one"]
    assert names(database, changed_before=created.replace(microsecond=created.microsecond - 1)) == []
