# SPDX-License-Identifier: Apache-2.0
"""A page of servers is read from an index in its order, from its first row on: its cost is that of a page."""

from typing import Any

import pytest
import sqlalchemy as sa

from kilonova.db import instance_lists, instances
from kilonova.db.database import Database
from kilonova.db.instance_lists import InstanceQuery
from kilonova.identifiers import new_uuid
from kilonova.model.flavor import Flavor
from kilonova.model.instance import Instance, VmState


def plan(database: Database, query: InstanceQuery) -> str:
    """Return how SQLite reads the page of a query."""
    read: list[tuple[str, Any]] = []

    def note(_connection: Any, _cursor: Any, text: str, parameters: Any, *_: Any) -> None:
        if " ORDER BY instances." in text:
            read.append((text, parameters))

    with database.read() as connection:
        sa.event.listen(database.engine, "before_cursor_execute", note)
        try:
            instance_lists.list_page(connection, query)
        finally:
            sa.event.remove(database.engine, "before_cursor_execute", note)
        ((text, parameters),) = read
        steps = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}", parameters)
        return "; ".join(step.detail for step in steps)


@pytest.mark.parametrize("project_id", [None, "p"], ids=["all projects", "one project"])
def test_pages_are_read_in_their_order(sqlite: Database, project_id: str | None) -> None:
    flavor = Flavor("1", "f", 1, 512, 1)
    server = Instance(0, new_uuid(), "vm", "p", "u", VmState.ACTIVE, flavor)
    sqlite.write(lambda tx: instances.insert(tx, [(server, None)]))
    first = plan(sqlite, InstanceQuery(project_id=project_id))
    assert "TEMP B-TREE" not in first
    assert "ix_instances_listing" in first
    later = plan(sqlite, InstanceQuery(project_id=project_id, marker=server.uuid))
    assert "TEMP B-TREE" not in later
    assert "created_at<?" in later  # it begins at the marker
