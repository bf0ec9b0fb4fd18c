# SPDX-License-Identifier: Apache-2.0
"""Lists and counts of workflows for operators."""

from functools import partial

import pytest

from kilonova.db import workflows
from kilonova.db.database import Database
from kilonova.db.workflows import Count, WorkflowRow
from kilonova.errors import NotFound
from kilonova.identifiers import new_uuid


def row(kind: str, step: str, **more: object) -> WorkflowRow:
    return WorkflowRow(
        uuid=new_uuid(), kind=kind, instance_uuid="server", reservation_id="", request_id="req", step=step, **more
    )  # type: ignore[arg-type]


def test_pages_hold_each_workflow_once_also_where_many_began_together(database: Database) -> None:
    together = [row("build", "spawn") for _ in range(7)]
    database.write(lambda tx: workflows.insert(tx, together, "me"))
    later = [row("resize", "claim", stuck=True)]
    database.write(lambda tx: workflows.insert(tx, later, "me"))
    seen: list[str] = []
    with database.read() as connection:
        while page := workflows.list_page(connection, limit=3, marker=seen[-1] if seen else None):
            seen += [each.uuid for each in page]
        assert seen == [*sorted(each.uuid for each in together), later[0].uuid]
        assert [each.uuid for each in workflows.list_page(connection, stuck=True)] == [later[0].uuid]
        assert len(workflows.list_page(connection, stuck=False, kind="build")) == 7
        with pytest.raises(NotFound):
            workflows.list_page(connection, marker=new_uuid())


def test_what_is_counted_together(database: Database) -> None:
    made = [row("build", "spawn"), row("build", "spawn"), row("build", "spawn", undoing=True, stuck=True)]
    database.write(lambda tx: workflows.insert(tx, made, "me"))
    with database.read() as connection:
        counted = workflows.counts(connection)
        first = workflows.oldest(connection)
    assert first is not None
    count = partial(Count, "build", "spawn", waiting=False, awaits_host=False, oldest=first)
    assert sorted(counted, key=lambda each: each.workflows) == [
        count(undoing=True, stuck=True, workflows=1),
        count(undoing=False, stuck=False, workflows=2),
    ]
    assert sorted(map(workflows.state_of, counted)) == ["doing", "stuck"]
