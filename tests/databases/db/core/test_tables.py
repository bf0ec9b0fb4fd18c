# SPDX-License-Identifier: Apache-2.0
"""Values come back from a database as they were stored, and compare and sort alike on every kind."""

from datetime import datetime

import pytest

from kilonova.db import aggregates, compute_nodes, instances, request_specs, services, traits, workflows
from kilonova.db.core import tables as t
from kilonova.db.core.statements import insert_missing
from kilonova.db.core.transaction import Transaction
from kilonova.db.database import Database
from kilonova.db.workflows import WorkflowRow
from kilonova.errors import NotFound
from kilonova.identifiers import new_uuid
from kilonova.model.flavor import Flavor
from kilonova.model.instance import Instance, VmState
from kilonova.model.request_spec import RequestSpec, StoredRequest

FLAVOR = Flavor("1", "m1.tiny", vcpus=1, memory_mib=512, root_gib=1, extra_specs={"ssd": "true"})
ODD = "ü 漢字 😀 \"'\\ %s :x {} \x7f"


def test_text_json_booleans_and_microseconds_come_back_as_they_were(database: Database) -> None:
    body = {"text": ODD, "deep": [{"none": None, "true": True, "number": 2**53, "float": 0.1}]}
    flow = WorkflowRow(
        uuid=new_uuid(),
        kind="build",
        instance_uuid=new_uuid(),
        reservation_id="r",
        request_id="req",
        step="claim",
        facts=body,
    )
    asked = StoredRequest(new_uuid(), RequestSpec(FLAVOR, hints={ODD: (ODD,)}), None, "x" * 65_535)
    one = Instance(
        0, new_uuid(), ODD, "p", "u", VmState.ACTIVE, FLAVOR, request_spec_uuid=asked.uuid, metadata={ODD: ODD}
    )
    moments: list[datetime] = []

    def write(tx: Transaction) -> None:
        workflows.insert(tx, [flow], "me")
        request_specs.insert(tx, [asked])
        instances.insert(tx, [(one, None)])
        moments.append(tx.now)

    database.write(write)
    with database.read() as connection:
        stored = workflows.get(connection, flow.uuid, "me")
        assert stored is not None
        assert stored.facts == body
        found = instances.get(connection, one.uuid)
        assert request_specs.get_many(connection, [found]) == {one.uuid: asked}
    assert (found.name, found.metadata, found.flavor) == (ODD, {ODD: ODD}, FLAVOR)
    assert found.created_at == moments[0]
    assert moments[0].microsecond, "the clock of this machine should do better than a millisecond"


@pytest.mark.parametrize(("one", "other"), [("CUSTOM_A", "custom_a"), ("Straße", "Strasse"), ("a", "á"), ("a", "a ")])
def test_names_that_differ_in_anything_are_different(database: Database, one: str, other: str) -> None:
    def write(tx: Transaction) -> None:
        assert insert_missing(tx, t.traits, {"name": one, "created_at": tx.now})
        assert insert_missing(tx, t.traits, {"name": other, "created_at": tx.now})
        assert not insert_missing(tx, t.traits, {"name": one, "created_at": tx.now})

    database.write(write)
    with database.read() as connection:
        assert traits.get(connection, one).name == one
        assert traits.get(connection, other).name == other
        with pytest.raises(NotFound):
            traits.get(connection, one.swapcase() + "x")


@pytest.mark.parametrize("number", [2**31, 2**63 - 1])
def test_a_number_that_no_row_has_is_not_found(database: Database, number: int) -> None:
    with database.read() as connection:
        for get in (services.get_by_id, compute_nodes.get_by_id, aggregates.get):
            with pytest.raises(NotFound):
                get(connection, number)
