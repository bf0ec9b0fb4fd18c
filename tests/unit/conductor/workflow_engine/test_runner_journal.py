# SPDX-License-Identifier: Apache-2.0
"""Rows of other releases: older ones are brought up, and what this release does not know stays as it is."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

from kilonova.conductor.workflow_engine import facts as codec
from kilonova.conductor.workflow_engine.facts import UnknownFactsError
from kilonova.conductor.workflow_engine.workflow import Interrupt
from kilonova.db import workflows
from kilonova.db.database import Database
from kilonova.db.workflows import WorkflowRow
from kilonova.identifiers import new_uuid
from support.workbench import Workbench, note, step, workflow


@dataclass(frozen=True)
class Trip:
    """The facts of today: version 3."""

    host: str
    seats: tuple[int, ...] = ()


def _name_the_host(stored: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"host": stored["node"], "seat": stored["seat"]}


def _allow_more_seats(stored: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"host": stored["host"], "seats": [stored["seat"]]}


UPGRADES = (_name_the_host, _allow_more_seats)


def test_facts_of_every_earlier_version_are_brought_up() -> None:
    expected = Trip("a", (7,))
    assert codec.decode({"version": 1, "node": "a", "seat": 7}, Trip, UPGRADES) == expected
    assert codec.decode({"version": 2, "host": "a", "seat": 7}, Trip, UPGRADES) == expected
    assert codec.decode(codec.encode(expected, UPGRADES), Trip, UPGRADES) == expected
    assert codec.encode(expected, UPGRADES)["version"] == 3


def test_a_field_of_a_later_release_is_ignored_and_a_missing_one_has_its_default() -> None:
    assert codec.decode({"version": 3, "host": "a", "wheels": 4}, Trip, UPGRADES) == Trip("a")


@pytest.mark.parametrize(
    "stored",
    [
        {"host": "a"},
        {"version": 0, "host": "a"},
        {"version": 4, "host": "a"},
        {"version": "3", "host": "a"},
        {"version": 3},
        {"version": 3, "host": 5},
        {"version": 3, "host": "a", "seats": "many"},
    ],
)
def test_what_cannot_be_read_says_so(stored: Mapping[str, Any]) -> None:
    with pytest.raises(UnknownFactsError):
        codec.decode(stored, Trip, UPGRADES)


@pytest.mark.parametrize(
    "damaged",
    [
        {"version": 1, "node": "a"},
        {"version": 2, "host": "a"},
    ],
)
def test_facts_that_an_upgrade_cannot_bring_up_cannot_be_read(damaged: Mapping[str, Any]) -> None:
    with pytest.raises(UnknownFactsError):
        codec.decode(damaged, Trip, UPGRADES)


# --- rows that a runner cannot run ------------------------------------------------------------------------------------

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
