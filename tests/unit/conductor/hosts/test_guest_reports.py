# SPDX-License-Identifier: Apache-2.0
"""What becomes of guests that are not where their servers are recorded: only what a record speaks of is removed."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import orjson
import pytest
import sqlalchemy as sa

from kilonova.compute.agent import guests_of
from kilonova.conductor.hosts import guest_reports
from kilonova.db import pending_removals, purge, stray_guests
from kilonova.db.audits import audit
from kilonova.db.core import tables as t
from kilonova.errors import Conflict
from kilonova.messaging.messages import (
    DestroyGuest,
    GuestsFound,
    RemoveGuest,
    SpawnGuest,
    StepId,
    StepReply,
)
from kilonova.model.found_guest import RemovalReason, StrayKind
from kilonova.model.instance import GuestSpec, PowerState
from support.cell import Cell, NewCell, host

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC).replace(tzinfo=None)


def odd(cell: Cell) -> dict[tuple[str, str], StrayKind]:
    with cell.database.read() as connection:
        return {(each.host, each.instance_uuid): each.oddity for each in stray_guests.list_page(connection)}


def there(cell: Cell, name: str) -> set[str]:
    return set(cell.drivers[name].list_guests())


def report(cell: Cell) -> None:
    """The moment has come at which hosts report their guests."""
    cell.bus.tell(guests_of(cell.agents))
    cell.bus.run()


def spawned(cell: Cell) -> GuestSpec:
    return next(message.guest for message in cell.bus.sent if isinstance(message, SpawnGuest))


@pytest.fixture
def cell(cell_of: NewCell) -> Cell:
    return cell_of(host("node1"), host("node2"))


def test_a_late_reply_about_a_guest_of_which_nothing_is_recorded_destroys_nothing(cell: Cell) -> None:
    (uuid,) = cell.boot(force_host="node1")
    cell.bus.run()
    cell.drivers["node2"].spawn(spawned(cell))
    cell.conductor.handle(StepReply(StepId("another", "spawn", 1), "node2", uuid, power_state=PowerState.RUNNING))
    cell.bus.run()
    assert (there(cell, "node1"), there(cell, "node2")) == ({uuid}, {uuid})
    assert odd(cell) == {("node2", uuid): StrayKind.ELSEWHERE}


def test_a_build_that_was_given_up_there_is_removed_however_late_it_ends(cell: Cell) -> None:
    """Its host could not be asked for the remains; the record of that outlives the order that made the guest."""
    (uuid,) = cell.boot(ignore_hosts=frozenset({"node2"}))
    cell.bus.step()
    late = spawned(cell)
    cell.database.write(lambda tx: pending_removals.note(tx, "node2", uuid, RemovalReason.LEFT))
    cell.bus.run()
    cell.drivers["node2"].spawn(late)
    cell.conductor.handle(StepReply(StepId("another", "spawn", 1), "node2", uuid, power_state=PowerState.RUNNING))
    cell.bus.run()
    assert cell.check() == {uuid: "active"}
    assert odd(cell) == {}


def test_a_delete_without_the_host_is_known_after_the_server_was_purged(cell: Cell) -> None:
    (uuid,) = cell.boot(force_host="node1")
    cell.bus.run()
    cell.bus.cut_off = {"node1"}
    cell.delete(uuid)
    cell.bus.run()
    purge.purge(cell.database, datetime.now(UTC).replace(tzinfo=None) + timedelta(seconds=1), rest=lambda _: None)
    assert there(cell, "node1") == {uuid}
    cell.reconnect()
    assert cell.check() == {}


def test_a_deleted_server_that_was_purged_leaves_no_record(cell: Cell) -> None:
    (uuid,) = cell.boot(force_host="node1")
    cell.bus.run()
    guest = spawned(cell)
    cell.delete(uuid)
    cell.bus.run()
    purge.purge(cell.database, datetime.now(UTC).replace(tzinfo=None) + timedelta(seconds=1), rest=lambda _: None)
    cell.drivers["node1"].spawn(guest)
    report(cell)
    assert there(cell, "node1") == {uuid}
    assert odd(cell) == {("node1", uuid): StrayKind.UNKNOWN}


@pytest.mark.parametrize("is_new", [False, True])
def test_a_deleted_server_has_guests_of_before_removed(cell: Cell, *, is_new: bool) -> None:
    (uuid,) = cell.boot(force_host="node1")
    cell.bus.run()
    guest = spawned(cell)
    cell.delete(uuid)
    cell.bus.run()
    ordered_at = datetime.now(UTC).replace(tzinfo=None) + timedelta(seconds=1) if is_new else guest.ordered_at
    cell.drivers["node2"].spawn(replace(guest, ordered_at=ordered_at))
    report(cell)
    assert there(cell, "node2") == ({uuid} if is_new else set())
    assert odd(cell) == ({("node2", uuid): StrayKind.NEWER} if is_new else {})


def test_a_guest_without_our_mark_is_nobodys_to_remove(cell: Cell) -> None:
    (uuid,) = cell.boot(force_host="node1")
    cell.bus.run()
    guest = spawned(cell)
    cell.delete(uuid)
    cell.bus.run()
    cell.drivers["node1"].spawn(guest)
    file = cell.folder / "hypervisors" / "node1.json"
    places = orjson.loads(file.read_bytes())
    places[uuid]["guest"]["ordered_at"] = None
    file.write_bytes(orjson.dumps(places))
    again = cell.restart()
    report(again)
    assert there(again, "node1") == {uuid}
    assert odd(again) == {("node1", uuid): StrayKind.UNMARKED}
    again.database.close()


def test_an_agent_of_before_that_knows_no_marks_is_told_to_remove_nothing(cell: Cell) -> None:
    (uuid,) = cell.boot(force_host="node1")
    cell.bus.run()
    guest = spawned(cell)
    cell.delete(uuid)
    cell.bus.run()
    cell.drivers["node1"].spawn(guest)
    cell.bus.tell(GuestsFound({"node1": {uuid: PowerState.RUNNING}}))
    cell.bus.step()
    assert not any(isinstance(message, RemoveGuest) for message in cell.bus.sent)


def test_a_guest_that_is_made_anew_meanwhile_is_not_the_one_to_remove(cell: Cell) -> None:
    """The order to remove is under way while its instance gets another guest on that host."""
    (uuid,) = cell.boot(force_host="node1")
    cell.bus.run()
    guest = spawned(cell)
    cell.drivers["node2"].spawn(guest)
    cell.database.write(lambda tx: pending_removals.note(tx, "node2", uuid, RemovalReason.LEFT))
    cell.bus.tell(guests_of(cell.agents))
    cell.bus.step()
    assert isinstance(cell.bus.sent[-1], RemoveGuest)
    cell.drivers["node2"].destroy(uuid)
    later = datetime.now(UTC).replace(tzinfo=None) + timedelta(seconds=1)
    cell.drivers["node2"].spawn(replace(guest, ordered_at=later))
    cell.bus.run()
    assert there(cell, "node2") == {uuid}


def test_a_move_that_ended_says_where_the_server_is_not_any_more(cell: Cell) -> None:
    (uuid,) = cell.boot(force_host="node1")
    cell.bus.run()
    before = spawned(cell)
    cell.live_migrate(uuid, "node2")
    cell.bus.run()
    cell.drivers["node1"].spawn(before)
    report(cell)
    assert cell.check() == {uuid: "active"}
    assert there(cell, "node1") == set()


def test_nothing_of_a_move_under_way_is_odd(cell: Cell) -> None:
    (uuid,) = cell.boot(force_host="node1")
    cell.bus.run()
    cell.resize(uuid)
    cell.bus.run()
    assert (there(cell, "node1"), there(cell, "node2")) == ({uuid}, {uuid})
    report(cell)
    assert (there(cell, "node1"), there(cell, "node2")) == ({uuid}, {uuid})
    assert odd(cell) == {}


def test_a_server_without_its_guest_is_reported_and_no_longer_when_it_is_back(cell: Cell) -> None:
    (uuid,) = cell.boot(force_host="node1")
    cell.bus.run()
    cell.drivers["node1"].destroy(uuid)
    report(cell)
    assert odd(cell) == {("node1", uuid): StrayKind.MISSING}
    cell.drivers["node1"].spawn(spawned(cell))
    report(cell)
    assert odd(cell) == {}


def test_a_report_that_is_outdated_by_the_time_it_is_read_leaves_no_trace(cell: Cell) -> None:
    """What is new in a report is asked for once more before it is stored."""
    cell.boot(force_host="node1")
    found = guests_of(cell.agents)
    cell.bus.run()
    cell.bus.tell(found)
    cell.bus.run()
    assert odd(cell) == {}


def test_a_report_that_comes_while_this_process_may_not_act_does_nothing(
    cell: Cell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(cell.conductor.runner), "may_act", False)
    cell.drivers["node1"].spawn(
        GuestSpec(uuid="a", name="a", hostname="a", vcpus=1, memory_mib=512, root_gib=1, ordered_at=LONG_AGO)
    )
    report(cell)
    assert odd(cell) == {}


def test_names_that_no_column_holds_are_passed_over(cell: Cell) -> None:
    cell.conductor.handle(GuestsFound({"node1": {"x" * 100: PowerState.RUNNING, "y": PowerState.RUNNING}}, {}, ("y",)))
    assert odd(cell) == {("node1", "y"): StrayKind.UNMARKED}


def test_a_host_out_of_its_mind_fills_no_disk(cell: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stray_guests, "MOST_OF_A_HOST", 5)
    for start in range(0, 30, 3):
        uuids = [f"guest-{number}" for number in range(start, start + 3)]
        found = GuestsFound({"node1": dict.fromkeys(uuids, PowerState.RUNNING)}, {}, tuple(uuids))
        cell.conductor.handle(found)
    assert len(odd(cell)) == 5
    report(cell)
    assert odd(cell) == {}


def test_a_process_out_of_its_mind_fills_no_disk(cell: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stray_guests, "MOST_OF_A_PROCESS", 7)
    for start in range(0, 30, 3):
        uuids = [f"guest-{number}" for number in range(start, start + 3)]
        both = {host: {f"{host}-{uuid}": PowerState.RUNNING for uuid in uuids} for host in ("node1", "node2")}
        asked = tuple(uuid for guests in both.values() for uuid in guests)
        cell.conductor.handle(GuestsFound(both, {}, asked))
    assert len(odd(cell)) == 7


def test_of_a_host_that_reports_more_guests_than_any_has_some_are_looked_at(
    cell: Cell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guest_reports, "MOST_GUESTS", 3)
    uuids = [f"guest-{number}" for number in range(9)]
    cell.conductor.handle(GuestsFound({"node1": dict.fromkeys(uuids, PowerState.RUNNING)}, {}, tuple(uuids)))
    assert len(odd(cell)) == 3


def test_records_go_when_the_guest_is_gone_for_long(cell: Cell) -> None:
    for uuid in ("old", "new"):
        cell.database.write(lambda tx, uuid=uuid: pending_removals.note(tx, "node1", uuid, RemovalReason.LEFT))
    old = sa.update(t.departures).where(t.departures.c.instance_uuid == "old")
    with cell.database._engines.writer.begin() as connection:
        connection.execute(old.values(created_at=LONG_AGO))
    report(cell)
    with cell.database.read() as connection:
        assert set(pending_removals.of(connection, ["old", "new"])) == {("node1", "new")}


def test_an_audit_names_strays_and_servers_without_a_guest_and_mends_neither(cell: Cell) -> None:
    lost, (moved,) = cell.boot(force_host="node1"), cell.boot(force_host="node1")
    cell.bus.run()
    guest = spawned(cell)
    cell.drivers["node1"].destroy(lost[0])
    cell.drivers["node2"].spawn(replace(guest, uuid=moved))
    report(cell)
    with cell.database.read() as connection:
        found = audit.find_all(connection)
    assert [(each.kind, each.where) for each in found] == [
        ("guest", f"guest {moved} on host node2"),
        ("guest", f"server {lost[0]}"),
    ]
    for each in found:
        with pytest.raises(Conflict):
            cell.database.write(each.repair)
    assert there(cell, "node2") == {moved}
    cell.delete(lost[0])
    cell.live_migrate(moved, "node2")
    cell.work_off()
    with cell.database.read() as connection:
        assert not [each for each in audit.find_all(connection) if each.where == f"server {lost[0]}"], "it is gone"


def test_only_workflows_have_guests_destroyed_without_a_record(cell: Cell) -> None:
    (uuid,) = cell.boot(force_host="node1")
    cell.bus.run()
    cell.drivers["node2"].spawn(spawned(cell))
    report(cell)
    cell.delete(uuid)
    cell.bus.run()
    assert all(message.step.workflow for message in cell.bus.sent if isinstance(message, DestroyGuest))
