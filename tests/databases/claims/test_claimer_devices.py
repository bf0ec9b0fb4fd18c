# SPDX-License-Identifier: Apache-2.0
"""NUMA cells and PCI pools are claimed with the host: never more than exist, and a delete releases them."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from kilonova.claims.claimer import Order
from kilonova.db import host_devices
from kilonova.errors import NoValidHost
from kilonova.mirror.mirror import Mirror
from kilonova.model.flavor import Flavor
from kilonova.model.instance import VmState
from support.cell import Cell
from support.device_cells import GPU, PINNED, devices_of, machine
from support.mirrors import assert_equal
from support.orders import order

HUGE = Flavor("h", "huge", 1, 512, 1, extra_specs={"hw:mem_page_size": "2MB"})


def place_at_once(cells: Sequence[Cell], orders: Sequence[Order]) -> int:
    """Claim for all orders at the same time, by the given processes in turn; return how many got a host."""
    barrier = Barrier(len(orders))

    def one(number: int) -> bool:
        barrier.wait(30)
        try:
            cells[number % len(cells)].claimer.place(orders[number])
        except NoValidHost:
            return False
        return True

    with ThreadPoolExecutor(len(orders)) as pool:
        return sum(pool.map(one, range(len(orders))))


def test_the_last_of_everything_goes_to_as_many_as_there_are(start_machines: Callable[..., Cell]) -> None:
    cell = start_machines(machine("a"), machine("b"))
    orders = [order(cell, flavor=(PINNED, GPU, HUGE)[number % 3]) for number in range(30)]
    assert place_at_once([cell], orders) == 8 + 6 + 8
    found = devices_of(cell)
    assert sum(len(each.pinned) for one in found for each in one.cells) == 16
    assert sum(pool.used for one in found for pool in one.pools) == 6
    assert [pages.used for one in found for each in one.cells for pages in each.pages] == [262144, 512] * 4
    assert not cell.mirror.assumed()
    assert_equal(cell.mirror, Mirror.follow(cell.database))


@pytest.mark.parametrize("kind", ["postgresql", "mariadb"], indirect=True)
def test_processes_that_race_for_the_last_ones_share_them(start_machines: Callable[..., Cell]) -> None:
    one, other = start_machines(machine("a")), start_machines(machine("b"))
    orders = [order((one, other)[number % 2], flavor=(PINNED, GPU)[number // 2 % 2]) for number in range(24)]
    assert place_at_once([one, other], orders) == 8 + 6
    devices_of(one)
    for cell in (one, other):
        cell.mirror.catch_up()
        assert_equal(cell.mirror, Mirror.follow(one.database))


def test_servers_of_one_request_count_each_other(start_machines: Callable[..., Cell]) -> None:
    cell = start_machines(machine("a"))
    with pytest.raises(NoValidHost, match="NUMATopologyFilter"):
        cell.claimer.place(order(cell, 5, flavor=PINNED))
    assert not any(each.pinned for one in devices_of(cell) for each in one.cells)
    assert len(cell.claimer.place(order(cell, 4, flavor=PINNED)).workflows) == 4
    devices_of(cell)


def test_delete_gives_everything_back(start_machines: Callable[..., Cell]) -> None:
    cell = start_machines(machine("a"))
    (idle,) = devices_of(cell)
    uuids = [uuid for flavor in (PINNED, GPU, HUGE) for uuid in cell.boot(flavor=flavor)]
    cell.bus.run()
    assert set(cell.check().values()) == {VmState.ACTIVE}
    (busy,) = devices_of(cell)
    assert busy != idle
    with cell.database.read() as connection:
        share = {each.instance_uuid: each.share for each in host_devices.shares(connection)}.get(uuids[0])
    assert share is not None
    assert [len(part.pinning) for part in share.cells] == [2]
    for uuid in uuids:
        cell.delete(uuid)
        cell.bus.run()
    assert cell.check() == {}
    assert devices_of(cell) == [idle]
    assert_equal(cell.mirror, Mirror.follow(cell.database))


def test_a_host_that_fails_the_spawn_gets_its_cpus_back(start_machines: Callable[..., Cell]) -> None:
    cell = start_machines(
        machine("a", failing_spawns=-1), machine("b", failing_spawns=-1), machine("c", failing_spawns=1)
    )
    idle = devices_of(cell)
    (uuid,) = cell.boot(flavor=PINNED)
    cell.bus.run()
    assert cell.check() == {uuid: VmState.ERROR}
    assert devices_of(cell) == idle
