# SPDX-License-Identifier: Apache-2.0
"""Servers leave hosts that are taken for dead; whatever comes back, there is never more than one guest."""

from collections.abc import Callable

import pytest
import sqlalchemy as sa

from kilonova.db import server_migrations
from kilonova.db import tables as t
from kilonova.db.server_migrations import MigrationQuery
from kilonova.errors import Conflict, DriverError, UnexpectedTaskState
from kilonova.messaging.messages import DestroyGuest, MoveAway, RebuildGuest, SpawnGuest
from kilonova.model.instance import PowerState, TaskState, VmState
from support.cell import Cell, NewCell, host

ACTIVE, STOPPED, ERROR = VmState.ACTIVE, VmState.STOPPED, VmState.ERROR
#: Of different sizes, so that each decision has one best host.
HOSTS = (host("node1"), host("node2", memory_mib=8192), host("node3", memory_mib=6144))


@pytest.fixture
def cell(cell_of: NewCell) -> Cell:
    made: Cell = cell_of(*HOSTS)
    return made


def boot(cell: Cell, **asked: object) -> str:
    (uuid,) = cell.boot(force_host="node1", **asked)
    cell.bus.run()
    return uuid


def running(cell: Cell, uuid: str) -> list[str]:
    states = {name: driver.list_guests().get(uuid) for name, driver in cell.drivers.items()}
    return sorted(name for name, state in states.items() if state is PowerState.RUNNING)


def having(cell: Cell, uuid: str) -> list[str]:
    return sorted(name for name, driver in cell.drivers.items() if uuid in driver.list_guests())


def migrations(cell: Cell, uuid: str) -> list[tuple[str, str, str | None]]:
    """(status, source, destination) of each, newest first."""
    with cell.database.read() as connection:
        found = server_migrations.list_page(connection, MigrationQuery(instance_uuid=uuid))
    return [(each.status.value, each.source_host, each.dest_host) for each in found]


def room(cell: Cell) -> dict[str, int]:
    """How many consumers have something of each host."""
    table, provider = t.allocations.c, t.resource_providers.c
    wanted = sa.select(provider.name, sa.func.count(sa.distinct(table.consumer_uuid))).join_from(
        t.allocations, t.resource_providers, table.resource_provider_id == provider.id
    )
    with cell.database.read() as connection:
        return dict(map(tuple, connection.execute(wanted.group_by(provider.name))))  # type: ignore[arg-type]


def test_a_dead_host_is_left_and_cleans_up_when_it_is_back(cell: Cell) -> None:
    uuid = boot(cell)
    cell.bus.cut_off = {"node1"}
    cell.evacuate(uuid)
    assert cell.instance(uuid).task_state is TaskState.REBUILDING
    cell.bus.run()
    server = cell.instance(uuid)
    assert (server.vm_state, server.task_state, server.host) == (ACTIVE, None, "node2")
    assert migrations(cell, uuid) == [("done", "node1", "node2")]
    assert room(cell) == {"node1": 1, "node2": 1}
    assert having(cell, uuid) == ["node1", "node2"]
    cell.check()
    cell.reconnect()
    cell.bus.run()
    assert (having(cell, uuid), running(cell, uuid)) == (["node2"], ["node2"])
    assert migrations(cell, uuid) == [("completed", "node1", "node2")]
    assert room(cell) == {"node2": 1}
    cell.check()


def test_a_host_that_comes_back_without_the_guest_is_clean(cell: Cell) -> None:
    uuid = boot(cell)
    cell.bus.cut_off = {"node1"}
    cell.evacuate(uuid)
    cell.bus.run()
    cell.drivers["node1"].destroy(uuid)
    cell.reconnect()
    assert migrations(cell, uuid) == [("completed", "node1", "node2")]
    cell.check()


def test_a_host_that_was_only_declared_down_powers_off_first(cell: Cell) -> None:
    uuid = boot(cell)
    driver, seen = cell.drivers["node2"], []
    rebuild = driver.rebuild

    def watched(*args: object, **kwargs: object) -> None:
        seen.append(running(cell, uuid))
        rebuild(*args, **kwargs)

    driver.rebuild = watched
    cell.evacuate(uuid)
    cell.bus.run()
    assert seen == [[]]
    assert (having(cell, uuid), running(cell, uuid)) == (["node2"], ["node2"])
    assert migrations(cell, uuid) == [("completed", "node1", "node2")]
    assert room(cell) == {"node2": 1}
    cell.check()


@pytest.mark.parametrize(
    ("state", "stops", "settled"),
    [("active", False, ACTIVE), ("active", True, STOPPED), ("stopped", False, STOPPED), ("error", False, ACTIVE)],
)
def test_in_which_state_a_server_arrives(cell: Cell, state: str, stops: bool, settled: VmState) -> None:
    uuid = boot(cell)
    if state == "stopped":
        cell.power(uuid, "stop")
        cell.bus.run()
    if state == "error":
        failing = sa.update(t.instances).where(t.instances.c.uuid == uuid)
        cell.database.write(lambda tx: tx.execute(failing.values(vm_state="error")))
    cell.bus.cut_off = {"node1"}
    cell.evacuate(uuid, stops=stops)
    cell.bus.run()
    server = cell.instance(uuid)
    power = PowerState.RUNNING if settled is ACTIVE else PowerState.SHUTDOWN
    assert (server.vm_state, server.host, server.power_state) == (settled, "node2", power)
    cell.check()


def test_a_host_that_somebody_names(cell: Cell) -> None:
    uuid = boot(cell)
    cell.bus.cut_off = {"node1"}
    cell.evacuate(uuid, "node3")
    cell.bus.run()
    assert cell.instance(uuid).host == "node3"
    cell.check()


def test_no_host_leaves_an_error_that_can_be_tried_again(cell_of: NewCell) -> None:
    cell = cell_of(host("node1"), host("node2", vcpus=1))
    uuid = boot(cell)
    (other,) = cell.boot(force_host="node2")
    cell.bus.run()
    cell.bus.cut_off = {"node1"}
    cell.evacuate(uuid)
    cell.bus.run()
    server = cell.instance(uuid)
    assert (server.vm_state, server.task_state, server.host) == (ERROR, None, "node1")
    assert server.fault is not None
    assert server.fault.message.startswith("No valid host was found.")
    assert migrations(cell, uuid) == [("error", "node1", None)]
    cell.check()
    cell.delete(other)
    cell.bus.run()
    cell.evacuate(uuid)
    cell.bus.run()
    assert (cell.instance(uuid).vm_state, cell.instance(uuid).host) == (ACTIVE, "node2")
    cell.check()


def test_a_destination_that_fails_is_passed_over(cell: Cell) -> None:
    uuid = boot(cell)
    cell = cell.restart()
    cell.drivers["node2"].rebuild = refuse
    cell.evacuate(uuid)
    cell.bus.run()
    assert (cell.instance(uuid).vm_state, cell.instance(uuid).host) == (ACTIVE, "node3")
    assert migrations(cell, uuid) == [("completed", "node1", "node3")]
    assert having(cell, uuid) == ["node3"]
    cell.check()


def test_when_all_destinations_fail_the_source_has_it_again(cell: Cell) -> None:
    uuid = boot(cell)
    for name in ("node2", "node3"):
        cell.drivers[name].rebuild = refuse
    cell.evacuate(uuid)
    cell.bus.run()
    server = cell.instance(uuid)
    assert (server.vm_state, server.host) == (ERROR, "node1")
    assert running(cell, uuid) == ["node1"]
    assert migrations(cell, uuid) == [("error", "node1", None)]
    cell.check()


def refuse(*_args: object, **_kwargs: object) -> None:
    raise DriverError("The disk hangs.")


@pytest.mark.parametrize("back", ["node1", "node2"])
def test_a_destination_that_dies_in_turn(cell: Cell, back: str) -> None:
    uuid = boot(cell)
    cell.bus.cut_off = {"node1"}
    driver = cell.drivers["node2"]
    rebuild = driver.rebuild

    def rebuild_and_vanish(*args: object, **kwargs: object) -> None:
        rebuild(*args, **kwargs)
        cell.bus.cut_off = {"node1", "node2"}
        raise DriverError("The disk hangs.")

    driver.rebuild = rebuild_and_vanish
    cell.evacuate(uuid)
    cell.bus.run()
    server = cell.instance(uuid)
    assert (server.vm_state, server.task_state, server.host) == (ERROR, None, "node2")
    assert migrations(cell, uuid) == [("done", "node1", "node2")]
    cell.evacuate(uuid)
    cell.bus.run()
    server = cell.instance(uuid)
    assert (server.vm_state, server.host) == (ACTIVE, "node3")
    assert migrations(cell, uuid) == [("done", "node2", "node3"), ("done", "node1", "node2")]
    assert room(cell) == {"node1": 1, "node2": 1, "node3": 1}
    cell.check()
    away = {"node1", "node2"} - {back}
    cell.bus.cut_off = {back}
    cell.reconnect()
    cell.bus.cut_off = away
    cell.bus.run()
    assert having(cell, uuid) == sorted({"node3", *away})
    assert room(cell) == dict.fromkeys(sorted({"node3", *away}), 1)
    cell.check()


def test_a_second_evacuation_while_the_destination_hangs(cell: Cell) -> None:
    uuid = boot(cell)
    cell.bus.cut_off = {"node1"}
    cell.evacuate(uuid)
    while not any(isinstance(message, RebuildGuest) for message in cell.bus.sent):
        cell.bus.step()
    assert cell.instance(uuid).host == "node2"
    cell.bus.cut_off = {"node1", "node2"}
    cell.evacuate(uuid)
    cell.bus.run()
    server = cell.instance(uuid)
    assert (server.vm_state, server.task_state, server.host) == (ACTIVE, None, "node3")
    assert migrations(cell, uuid) == [("done", "node2", "node3"), ("done", "node1", "node2")]
    cell.check()
    cell.reconnect()
    cell.bus.run()
    assert having(cell, uuid) == ["node3"]
    assert room(cell) == {"node3": 1}
    cell.check()


@pytest.mark.parametrize("after", range(0, 12, 2))
def test_a_source_that_comes_back_meanwhile(cell_of: NewCell, after: int) -> None:
    cell = cell_of(*HOSTS)
    uuid = boot(cell)
    cell.bus.cut_off = {"node1"}
    both = watch_for_two(cell, uuid)
    cell.evacuate(uuid)
    for _ in range(after):
        cell.bus.step()
    cell.reconnect()
    cell.bus.run()
    server = cell.instance(uuid)
    assert (server.vm_state, server.host) == (ACTIVE, "node2")
    assert not both
    assert having(cell, uuid) == ["node2"]
    assert migrations(cell, uuid) == [("completed", "node1", "node2")]
    cell.check()


def watch_for_two(cell: Cell, uuid: str) -> list[str]:
    """Note whenever a guest is made while another host that can be reached runs one."""
    both: list[str] = []
    for name, driver in cell.drivers.items():

        def watched(*args: object, make: Callable[..., None] = driver.rebuild, here: str = name, **kw: object) -> None:
            make(*args, **kw)
            both.extend(other for other in running(cell, uuid) if other not in {here, *cell.bus.cut_off})

        driver.rebuild = watched
    return both


@pytest.mark.parametrize("after", range(0, 10, 2))
def test_a_delete_meanwhile(cell_of: NewCell, after: int) -> None:
    cell = cell_of(*HOSTS)
    uuid = boot(cell)
    cell.bus.cut_off = {"node1"}
    cell.evacuate(uuid)
    for _ in range(after):
        cell.bus.step()
    cell.delete(uuid)
    cell.bus.run()
    assert cell.find(uuid) is None
    assert room(cell) == {}
    cell.reconnect()
    cell.bus.run()
    assert having(cell, uuid) == []
    cell.check()


@pytest.mark.parametrize("after", range(0, 10, 3))
def test_a_soft_delete_meanwhile_leaves_what_can_be_restored(cell_of: NewCell, after: int) -> None:
    cell = cell_of(*HOSTS)
    uuid = boot(cell)
    cell.evacuate(uuid)
    for _ in range(after):
        cell.bus.step()
    cell.delete(uuid, soft=True)
    cell.work_off()
    if cell.find(uuid) is None:
        return  # nothing could be kept
    cell.restore(uuid)
    cell.work_off()
    server = cell.instance(uuid)
    assert (server.vm_state, running(cell, uuid), having(cell, uuid)) == (ACTIVE, [server.host], [server.host])
    cell.check()


def test_a_server_that_was_evacuated_is_deleted_before_its_host_is_back(cell: Cell) -> None:
    uuid = boot(cell, group=cell.add_group("anti-affinity"))
    cell.bus.cut_off = {"node1"}
    cell.evacuate(uuid)
    cell.bus.run()
    cell.delete(uuid)
    cell.bus.run()
    assert (room(cell), migrations(cell, uuid)) == ({}, [("completed", "node1", "node2")])
    cell.reconnect()
    cell.bus.run()
    assert having(cell, uuid) == []
    cell.check()


@pytest.mark.parametrize("kind", ["stop", "reboot", "hard-reboot"])
def test_what_hangs_on_the_dead_host_gives_way(cell: Cell, kind: str) -> None:
    uuid = boot(cell)
    cell.power(uuid, kind)
    cell.bus._work.clear()
    cell.bus.cut_off = {"node1"}
    cell.evacuate(uuid)
    cell.bus.run()
    server = cell.instance(uuid)
    assert (server.vm_state, server.task_state, server.host) == (ACTIVE, None, "node2")
    cell.check()


@pytest.mark.parametrize("step", range(1, 14, 2))
@pytest.mark.parametrize("begin", [Cell.resize, Cell.live_migrate, Cell.rebuild])
def test_whatever_is_under_way_ends_without_the_dead_host(
    cell_of: NewCell, begin: Callable[[Cell, str], None], step: int
) -> None:
    cell = cell_of(*HOSTS)
    uuid = boot(cell)
    begin(cell, uuid)
    for _ in range(step):
        cell.bus.step()
    server = cell.instance(uuid)
    if server.vm_state is not ACTIVE or server.task_state is None:
        return  # it is over
    cell.bus.cut_off = {str(server.host)}
    cell.evacuate(uuid)
    cell.work_off()
    after = cell.instance(uuid)
    assert (after.vm_state, after.task_state) == (ACTIVE, None)
    assert after.host not in cell.bus.cut_off
    cell.reconnect()
    cell.work_off()
    assert having(cell, uuid) == [after.host]
    assert room(cell) == {after.host: 1}
    cell.check()


def resize_in_place(cell: Cell, uuid: str) -> None:
    cell.resize(uuid, stays=True)


@pytest.mark.parametrize("step", range(1, 14))
@pytest.mark.parametrize("begin", [Cell.resize, Cell.migrate, Cell.live_migrate, Cell.rebuild, resize_in_place])
def test_whatever_is_under_way_leaves_no_guest_on_a_host_that_was_only_declared_down(
    cell_of: NewCell, begin: Callable[[Cell, str], None], step: int
) -> None:
    cell = cell_of(*HOSTS)
    uuid = boot(cell)
    begin(cell, uuid)
    for _ in range(step):
        cell.bus.step()
    server = cell.instance(uuid)
    if server.vm_state is not ACTIVE or server.task_state is None:
        return  # it is over
    cell.evacuate(uuid)
    for _ in range(100):
        cell.bus.step()
        assert len(running(cell, uuid)) <= 1
    cell.work_off()
    after = cell.instance(uuid)
    assert having(cell, uuid) == [after.host]
    assert room(cell) == {after.host: 1}
    cell.check()


@pytest.mark.parametrize("back", range(1, 12))
def test_a_destination_that_comes_back_while_a_move_ends_without_it(cell_of: NewCell, back: int) -> None:
    cell = cell_of(*HOSTS)
    uuid = boot(cell)
    cell.resize(uuid)
    while "node2" not in running(cell, uuid):
        assert cell.bus.step()
    cell.bus.cut_off = {"node2"}
    cell.evacuate(uuid)
    for _ in range(back):
        cell.bus.step()
    cell.reconnect()
    cell.work_off()
    assert having(cell, uuid) == [cell.instance(uuid).host]
    cell.check()


def test_one_that_waits_is_not_joined_by_another(cell: Cell) -> None:
    uuid = boot(cell)
    cell.power(uuid, "stop")
    cell.evacuate(uuid)
    with pytest.raises(Conflict):
        cell.evacuate(uuid)
    cell.bus.run()
    assert cell.instance(uuid).host == "node2"
    cell.check()


def test_a_server_that_is_being_deleted_stays(cell: Cell) -> None:
    uuid = boot(cell)
    cell.delete(uuid)
    with pytest.raises(UnexpectedTaskState):
        cell.evacuate(uuid)
    cell.bus.run()
    cell.check()


def test_an_evacuated_server_moves_on_before_its_host_is_back(cell: Cell) -> None:
    uuid = boot(cell)
    cell.bus.cut_off = {"node1"}
    cell.evacuate(uuid)
    cell.bus.run()
    cell.resize(uuid)
    cell.bus.run()
    assert cell.instance(uuid).vm_state is VmState.RESIZED
    assert cell.instance(uuid).host == "node3"
    cell.check()
    cell.confirm(uuid)
    cell.bus.run()
    cell.check()
    assert room(cell) == {"node1": 1, "node3": 1}
    cell.reconnect()
    cell.bus.run()
    assert room(cell) == {"node3": 1}
    cell.check()


def test_it_does_not_go_back_to_a_host_that_has_yet_to_clean_up(cell_of: NewCell) -> None:
    cell = cell_of(host("node1", memory_mib=16384), host("node2"))
    uuid = boot(cell)
    cell.bus.cut_off = {"node1"}
    cell.evacuate(uuid)
    cell.bus.run()
    cell.bus.cut_off = set()
    cell.migrate(uuid)
    cell.bus.run()
    assert (cell.instance(uuid).host, cell.instance(uuid).vm_state) == ("node2", ACTIVE)
    cell.bus.cut_off = {"node1"}
    cell.reconnect()
    cell.bus.run()
    cell.migrate(uuid)
    cell.bus.run()
    assert (cell.instance(uuid).host, cell.instance(uuid).vm_state) == ("node1", VmState.RESIZED)
    cell.check()


def test_nothing_is_ordered_twice(cell: Cell) -> None:
    uuid = boot(cell)
    cell.bus.cut_off = {"node1"}
    del cell.bus.sent[:]
    cell.evacuate(uuid)
    cell.bus.run()
    assert [type(message) for message in cell.bus.sent] == [RebuildGuest]
    assert not any(isinstance(message, (DestroyGuest, SpawnGuest)) for message in cell.bus.sent)


def test_one_that_has_hardly_begun_gives_way_to_another(cell: Cell) -> None:
    uuid = boot(cell)
    cell.bus.cut_off = {"node1"}
    cell.evacuate(uuid)
    cell.evacuate(uuid)
    cell.bus.run()
    assert cell.instance(uuid).host == "node2"
    assert [status for status, _, _ in migrations(cell, uuid)] == ["done", "error"]
    cell.check()


def test_a_guest_that_a_move_was_taking_away_is_back_when_no_host_takes_the_server(cell_of: NewCell) -> None:
    cell = cell_of(host("node1"), host("node2"))
    group = cell.add_group("affinity")
    uuid = boot(cell, group=group)
    boot(cell, group=group)
    cell.resize(uuid, stays=True)
    while not any(isinstance(message, MoveAway) for message in cell.bus.sent):
        assert cell.bus.step()
    cell.evacuate(uuid)
    cell.work_off()
    assert (cell.instance(uuid).vm_state, cell.instance(uuid).host) == (ERROR, "node1")
    assert running(cell, uuid) == ["node1"]
    cell.check()


@pytest.mark.parametrize("step", [2, 3])
def test_another_while_the_source_gets_it_back_leaves_the_source_its_guest(cell_of: NewCell, step: int) -> None:
    cell = cell_of(host("node1"), host("node2", memory_mib=8192, failing_spawns=1))
    uuid = boot(cell)
    cell.evacuate(uuid)
    while not any(isinstance(message, RebuildGuest) for message in cell.bus.sent):
        assert cell.bus.step()
    for _ in range(step):
        cell.bus.step()
    assert cell.instance(uuid).host == "node2"
    cell.evacuate(uuid)
    cell.work_off()
    assert having(cell, uuid) == [cell.instance(uuid).host]
    cell.check()
