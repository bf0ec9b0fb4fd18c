# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace

import pytest
import sqlalchemy as sa

from kilonova.db import host_agents, workflows
from kilonova.db.database import Database
from kilonova.db.host_agents import Process
from kilonova.db.workflows import WorkflowRow
from kilonova.errors import ConcurrentUpdate

FLOW = WorkflowRow(uuid="w", kind="build", instance_uuid="i", reservation_id="r", request_id="q", step="claim")
NEXT = replace(FLOW, step="spawn", attempt=1, version=1)


@pytest.fixture
def journalled(sqlite: Database) -> Database:
    sqlite.write(lambda tx: workflows.insert(tx, [FLOW], "me"))
    return sqlite


def test_a_step_is_taken_once(journalled: Database) -> None:
    """The same reply may come twice at the same moment: only one may act on it."""
    journalled.write(lambda tx: workflows.move(tx, NEXT, "me"))
    with pytest.raises(ConcurrentUpdate):
        journalled.write(lambda tx: workflows.move(tx, NEXT, "me"))
    with journalled.read() as connection:
        found = workflows.get(connection, "w", "me")
    assert found is not None
    assert replace(found, since=None, owner="", created_at=None) == NEXT


def test_only_the_present_step_can_end_a_workflow(journalled: Database) -> None:
    journalled.write(lambda tx: workflows.move(tx, NEXT, "me"))
    with pytest.raises(ConcurrentUpdate):
        journalled.write(lambda tx: workflows.finish(tx, FLOW, "me"))
    journalled.write(lambda tx: workflows.finish(tx, NEXT, "me"))
    with pytest.raises(ConcurrentUpdate):
        journalled.write(lambda tx: workflows.finish(tx, NEXT, "me"))


def test_only_the_owner_moves_and_ends_a_workflow(journalled: Database) -> None:
    with pytest.raises(ConcurrentUpdate):
        journalled.write(lambda tx: workflows.move(tx, NEXT, "other-process"))
    with pytest.raises(ConcurrentUpdate):
        journalled.write(lambda tx: workflows.finish(tx, FLOW, "other-process"))


def test_what_somebody_else_runs_is_adopted_when_nobody_else_can_be_alive(journalled: Database) -> None:
    journalled.write(lambda tx: host_agents.register(tx, Process("me"), (), host_agents.LEASE))
    assert journalled.write(lambda tx: workflows.adopt(tx, "heir", everything=False)) == ()
    (adopted,) = journalled.write(lambda tx: workflows.adopt(tx, "heir", everything=True))
    assert replace(adopted, since=None, owner="", created_at=None) == FLOW
    assert journalled.write(lambda tx: workflows.adopt(tx, "heir", everything=True)) == ()
    with pytest.raises(ConcurrentUpdate):
        journalled.write(lambda tx: workflows.move(tx, NEXT, "me"))


def stored_interrupt(database: Database) -> str | None:
    """Return the interrupt that the release before reads."""
    with database.read() as connection:
        stored: str | None = connection.execute(sa.text("SELECT interrupt FROM workflows")).scalar()
    return stored


def read_interrupt(database: Database) -> str | None:
    with database.read() as connection:
        (row,) = workflows.of_instance(connection, "i")
    return row.interrupt


def test_the_release_before_reads_an_interrupt_that_it_knows(journalled: Database) -> None:
    soft = replace(NEXT, interrupt="soft-delete")
    journalled.write(lambda tx: workflows.change(tx, soft, heir=False))
    assert stored_interrupt(journalled) == "delete"
    assert read_interrupt(journalled) == "soft-delete"
    journalled.write(lambda tx: workflows.move(tx, replace(soft, version=2, attempt=2), "me"))
    assert read_interrupt(journalled) == "soft-delete"
    journalled.write(lambda tx: workflows.change(tx, replace(soft, interrupt="delete", version=3), heir=False))
    assert stored_interrupt(journalled) == read_interrupt(journalled) == "delete"


def test_an_interrupt_of_the_release_before_replaces_an_exact_one(journalled: Database) -> None:
    soft = replace(NEXT, interrupt="soft-delete")
    journalled.write(lambda tx: workflows.change(tx, soft, heir=False))
    journalled.write(lambda tx: tx.execute(sa.text("UPDATE workflows SET interrupt = 'evacuate'")))
    assert read_interrupt(journalled) == "evacuate"
