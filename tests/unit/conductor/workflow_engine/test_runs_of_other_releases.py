# SPDX-License-Identifier: Apache-2.0
"""Workflow rows of another release stay as they are, and facts survive every step."""

import logging
from dataclasses import replace

import pytest

from kilonova.conductor.workflow_engine.run import Interrupt
from kilonova.db import workflows
from kilonova.db.database import Database
from kilonova.db.workflows import WorkflowRow
from kilonova.identifiers import new_uuid
from support.workbench import Workbench, note, step, workflow

FLOW = workflow(step("act"))
UNKNOWN = {
    "kind": {"kind": "of-a-later-release"},
    "step": {"step": "of-a-later-release"},
    "version of the facts": {"facts": {"version": 99, "host": "a"}},
    "facts": {"facts": {"version": 1, "host": 5}},
}


def unknown(bench: Workbench, what: str) -> WorkflowRow:
    row = WorkflowRow(
        uuid=new_uuid(),
        kind=FLOW.kind,
        instance_uuid=bench.server(),
        reservation_id="",
        request_id="req-1",
        step="",
        owner="me",
    )
    row = replace(FLOW.first_row(row, FLOW.facts()), **UNKNOWN[what])  # type: ignore[arg-type]
    bench.database.write(lambda tx: workflows.insert(tx, [row], "me"))
    return row


@pytest.mark.parametrize("what", UNKNOWN)
def test_a_row_that_this_release_does_not_know_stays_and_keeps_nobody(
    sqlite: Database, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    bench = Workbench(sqlite, [FLOW])
    strange = unknown(bench, what)
    before = bench.row(strange)
    assert before is not None
    plain = bench.begin(FLOW)
    bench.runner.begin([before, plain], resumed=True)
    bench.bus.run()
    bench.wait(3600)
    assert bench.row(strange) == before
    assert bench.runner.known == {plain.uuid}
    assert any(strange.uuid in record.getMessage() for record in caplog.records)
    bench.reply()
    assert bench.row(plain) is None, "others go on"


@pytest.mark.parametrize("what", ["kind", "step"])
def test_a_delete_leaves_alone_what_this_release_does_not_know(sqlite: Database, what: str) -> None:
    bench = Workbench(sqlite, [FLOW])
    strange = unknown(bench, what)
    before = bench.row(strange)
    bench.interrupt(strange, Interrupt.DELETE)
    assert bench.row(strange) == before


def test_facts_survive_every_step(sqlite: Database) -> None:
    flow = workflow(step("first", note), step("second", note), step("third"))
    bench = Workbench(sqlite, [flow])
    row = bench.begin(flow)
    present = bench.row(row)
    assert present is not None
    assert flow.run(present).facts.trace == ("first", "second")
