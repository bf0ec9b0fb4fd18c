# SPDX-License-Identifier: Apache-2.0
"""A diff on an edited cloud is what an independent repetition on the edited change log says."""

import random
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace
from tests.unit.claims.test_policy_diff import PRESENT, diff, expected, outcome

from kilonova.db import services
from kilonova.db.change_log.changes import Change
from kilonova.planning.policy_change import AggregateChange, PolicyChange
from support.cell import Cell, NewCell
from support.decision_histories import History, by_hand, some_hosts
from support.samples import sampled

DISABLED = "COMPUTE_STATUS_DISABLED"


class Editor:
    """Edits a log in two passes: it first learns which provider is which host's, and which aggregate has which uuid."""

    def __init__(self, number: int, metadata: dict[str, str | None], adds: str, removes: str, off: str) -> None:
        self.number, self.metadata, self.adds, self.removes, self.off = number, metadata, adds, removes, off
        self.hosts: dict[str, str] = {}
        self.uuid = ""

    def __call__(self, changes: Sequence[Change]) -> Sequence[Change]:
        for change in changes:
            if change.kind == "node" and change.value is not None:
                self.hosts[change.key] = change.value.host
            if change.kind == "aggregate" and change.key == str(self.number):
                self.uuid = change.value.uuid
        return [self._edited(change) for change in changes]

    def _edited(self, change: Change) -> Change:
        value: Any = change.value
        if change.kind == "aggregate" and change.key == str(self.number):
            hosts = [*(name for name in value.hosts if name not in {self.adds, self.removes}), self.adds]
            data = {**value.metadata, **self.metadata}
            kept = {key: data[key] for key in sorted(data) if data[key] is not None}
            return replace(change, value=replace(value, hosts=hosts, metadata=kept))
        if change.kind == "service" and change.key == self.off:
            return replace(change, value=replace(value, disabled=True))
        host = self.hosts.get(change.key)
        if change.kind != "provider" or host is None:
            return change
        groups = [uuid for uuid in value.aggregates if uuid != self.uuid or host != self.removes]
        groups += [self.uuid] * (host == self.adds and self.uuid not in groups)
        traits = [*(name for name in value.traits if name != DISABLED), DISABLED] if host == self.off else value.traits
        return replace(change, value=replace(value, aggregates=groups, traits=traits))


def with_aggregates(cell_of: NewCell, seed: int) -> Cell:
    """Return a cell whose aggregates all exist before its first checkpoint, as :class:`Editor` requires."""
    chance = random.Random(seed)
    cell = cell_of(*some_hosts(chance, 6), engine=PRESENT.engine)
    story = History(cell, chance)
    for number, data in enumerate(({"ssd": "true"}, {"filter_tenant_id": "p"}, {"availability_zone": "a"})):
        story.turn = number
        story.aggregates.append(story._aggregate(cell.hosts[number].name, dict(data)))
    story.aggregates += [0] * 4
    fresh = History(cell, chance)
    fresh.aggregates = list(story.aggregates)
    fresh.run(sampled(200, sample=25))
    return cell


def test_an_edited_cloud_decides_as_if_it_had_been_so(cell_of: NewCell) -> None:
    cell = with_aggregates(cell_of, 11)
    names = [each.name for each in cell.hosts]
    for number, metadata, adds, removes, off in (
        (1, {"ssd": None}, names[4], names[0], names[5]),
        (1, {"ssd": "true"}, names[3], names[0], names[2]),
        (2, {"filter_tenant_id": "q"}, names[5], names[1], names[0]),
        (3, {"ram_weight_multiplier": "-5"}, names[4], names[2], names[3]),
    ):
        edit = AggregateChange(metadata, frozenset({adds}), frozenset({removes}))
        change = PolicyChange(aggregates={number: edit}, disabled={off: True})
        by_editor = Editor(number, dict(metadata), adds, removes, off)
        with cell.database.read() as connection:
            found = diff(connection, PRESENT, change)
            assert outcome(found) == expected(connection, by_hand(connection, PRESENT.engine, edit=by_editor))
            assert found.differences
            assert found.aggregates == {number}


def test_flavors_have_other_extra_specs(cell_of: NewCell) -> None:
    cell = with_aggregates(cell_of, 12)
    key = "aggregate_instance_extra_specs:ssd"
    change = PolicyChange(flavors={"m1.0": {key: "true"}, "12": {key: None}})
    with cell.database.read() as connection:
        found = diff(connection, PRESENT, change)
        assert outcome(found) == expected(connection, by_hand(connection, PRESENT.engine, asked=change.asked))
        assert found.differences
        assert set(found.flavors) == {"m1.0", "12"}


def test_a_host_is_enabled_again(cell_of: NewCell) -> None:
    cell = cell_of(*some_hosts(random.Random(13), 3), engine=PRESENT.engine)
    names = [each.name for each in cell.hosts]
    for name in names:
        cell.database.write(
            lambda tx, name=name: services.update(tx, services.get_by_host(tx.connection, name).uuid, disabled=True)
        )
    History(cell, random.Random(1)).run(2)
    with cell.database.read() as connection:
        found = diff(connection, PRESENT, PolicyChange(disabled={names[1]: False}))
    assert set(outcome(found).values()) == {(None, names[1])}
    assert found.hosts == {names[1]}
