# SPDX-License-Identifier: Apache-2.0
"""Requests for more servers than one transaction takes: in pieces, and all or none whatever happens."""

import itertools
from pathlib import Path

import pytest
import sqlalchemy as sa

from kilonova.db.core import tables as t
from kilonova.db.core.transaction import BatchedWrite, Transaction
from kilonova.errors import InvalidRequest, OverQuota
from kilonova.model.instance import VmState
from kilonova.model.quota import NO_LIMITS
from support.cell import Cell, Killed, MortalDatabase, NewCell, host, new_cell
from support.manual_bus import ManualBus

ROOM = 8
HOSTS = (host("node1"), host("node2"))


class Death:
    """Kills the process just after the transaction with the given number."""

    def __init__(self, point: int | None = None) -> None:
        self.point = point
        self.seen = 0

    def __call__(self, what: str) -> None:
        if what == "after a transaction":
            if self.seen == self.point:
                raise Killed
            self.seen += 1


@pytest.mark.parametrize(("count", "state"), [(ROOM, VmState.ACTIVE), (ROOM + 1, VmState.ERROR)])
def test_all_or_none_in_pieces(cell_of: NewCell, count: int, state: VmState) -> None:
    cell = cell_of(*HOSTS, piece=3)
    uuids = cell.boot(count, group=cell.add_group("soft-anti-affinity"))
    cell.bus.run()
    assert cell.check() == dict.fromkeys(uuids, state)
    for uuid in uuids:
        fault = cell.instance(uuid).fault
        assert (fault is None) == (state is VmState.ACTIVE)
        cell.delete(uuid)
    cell.bus.run()
    assert cell.check() == {}


def test_what_is_decided_in_several_goes_claims_nothing_where_the_whole_does_not_fit(cell_of: NewCell) -> None:
    """Nobody else may miss the room meanwhile."""
    cell = cell_of(host("big", vcpus=64, memory_mib=64 * 512, disk_gib=64), piece=3)
    claims: list[int] = []

    def count(commit: object) -> None:
        claims.extend(getattr(commit, "claims", ()))

    cell.database.on_commit(count)
    uuids = cell.boot(65)
    cell.bus.run()
    assert set(cell.check().values()) == {VmState.ERROR}
    assert claims == []
    message = cell.instance(uuids[0]).fault
    assert message is not None
    assert "for server 65 of 65" in message.message


def test_others_get_in_between_two_pieces(cell_of: NewCell) -> None:
    cell = cell_of(*HOSTS, piece=3)
    cell.boot(30)
    order: list[str] = []
    cell.bus.step()  # refused
    while cell.bus._work:
        before = _in_error(cell)
        (other,) = cell.boot()
        cell.bus.step()
        assert _in_error(cell) - before <= 3
        order.append(other)
        if len(order) > 3:
            break
    cell.bus.run()
    states = cell.check()
    assert [states[uuid] for uuid in order] == [VmState.ACTIVE] * len(order)


def test_no_transaction_is_longer_than_a_piece(cell_of: NewCell) -> None:
    cell = cell_of(*HOSTS, piece=3)
    statements: list[int] = []

    @sa.event.listens_for(cell.database._engines.writer, "before_cursor_execute")
    def count(_c: object, _cursor: object, _s: str, parameters: object, _x: object, many: bool) -> None:
        if many and isinstance(parameters, list):
            statements.append(len(parameters))

    cell.boot(31)
    cell.bus.run()
    assert max(statements) <= 3


def test_a_server_deleted_meanwhile_is_left_alone(cell_of: NewCell) -> None:
    cell = cell_of(*HOSTS, piece=3)
    uuids = cell.boot(ROOM)
    cell.delete(uuids[0])
    cell.bus.run()
    assert cell.check() == dict.fromkeys(uuids[1:], VmState.ACTIVE)


def test_a_group_that_vanishes_while_servers_are_stored_leaves_none(cell_of: NewCell) -> None:
    cell = cell_of(*HOSTS, piece=3)
    group = cell.add_group("soft-anti-affinity")
    stored = itertools.count()

    plain = cell.database.write_batched

    def write(run: BatchedWrite, item: object) -> object:  # type: ignore[type-arg]
        if next(stored) == 1:
            plain(run, _drop_groups)
        return plain(run, item)

    cell.database.write_batched = write  # type: ignore[method-assign, assignment]
    with pytest.raises(InvalidRequest):
        cell.boot(ROOM, group=group)
    cell.bus.run()
    assert cell.check() == {}


def _drop_groups(tx: Transaction) -> None:
    tx.execute(sa.delete(t.server_group_members))
    tx.execute(sa.delete(t.server_groups))


def _in_error(cell: Cell) -> int:
    with cell.database.read() as connection:
        wanted = sa.select(sa.func.count()).where(t.instances.c.vm_state == VmState.ERROR.value)
        return int(connection.execute(wanted.select_from(t.instances)).scalar_one())


@pytest.mark.parametrize("count", [ROOM, ROOM + 1])
def test_killed_between_any_two_pieces(sqlite_template: Path, tmp_path: Path, count: int) -> None:
    """All servers are there or none; and where they failed, it was all of them, though room came up meanwhile."""
    for point in itertools.count():
        folder = tmp_path / str(point)
        folder.mkdir()
        database = MortalDatabase(f"sqlite:///{folder / 'kilonova.db'}")
        cell = new_cell(sqlite_template, folder, *HOSTS, bus=ManualBus(), database=database, piece=3)
        promised: list[str] = []
        database.event = Death(point)
        try:
            promised += cell.boot(count)
            cell.bus.run()
        except Killed:
            pass
        else:
            database.close()
            break
        with cell.database.read() as connection:
            present = sa.select(t.workflows.c.step, t.workflows.c.undoing).where(t.workflows.c.kind == "batch")
            leader = connection.execute(present).first()
        again = cell.restart()
        again.bus.run()
        states = again.check()
        assert len(states) in ({count} if promised else {0, count}), f"killed at {point}"
        assert len(set(states.values())) <= 1, f"killed at {point}"
        if leader is None:
            pass
        elif leader.undoing or (leader.step == "claim" and count > ROOM):
            assert set(states.values()) == {VmState.ERROR}
        elif leader.step == "store":
            assert not states
        for each in (again, cell):
            each.database.close()
    assert point > 8


def test_quotas_hold_over_all_pieces(cell_of: NewCell) -> None:
    cell = cell_of(*HOSTS, piece=3, limits={**NO_LIMITS, "cores": 7})
    with pytest.raises(OverQuota, match="Requested 8, but already used 0 of 7 cores"):
        cell.boot(8)
    cell.bus.run()
    assert cell.check() == {}
    cell.boot(8, at_least=5)
    cell.bus.run()
    assert list(cell.check().values()) == [VmState.ACTIVE] * 7
