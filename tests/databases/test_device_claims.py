# SPDX-License-Identifier: Apache-2.0
"""NUMA cells and PCI pools are claimed with the host: never more than there are, and everything comes back."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Barrier

import pytest
import sqlalchemy as sa

from kilonova.claims.claimer import Order
from kilonova.claims.commit import Bundle, InstancesGone, commit_bundles
from kilonova.db import compute_nodes, host_devices
from kilonova.db.audits import audit
from kilonova.db.change_log import device_json
from kilonova.db.core import tables as t
from kilonova.db.core.transaction import Transaction
from kilonova.db.database import Database
from kilonova.db.host_devices import Taking
from kilonova.errors import ClaimLost, NoValidHost
from kilonova.identifiers import new_uuid
from kilonova.messaging.messages import SpawnGuest
from kilonova.mirror.mirror import Mirror
from kilonova.model.flavor import Flavor
from kilonova.model.guest_devices import GuestDevices
from kilonova.model.host_devices import DeviceShare, HostDevices
from kilonova.model.instance import VmState
from kilonova.model.numa import CellShare, HostCell, Pages
from kilonova.model.pci import PciPool
from kilonova.scenario.model import SimulatedCell, SimulatedHost, SimulatedPool
from kilonova.scheduler.settings import DEFAULT_FILTERS, SchedulerConfig
from support.cell import SMALL, Cell, host, start_cell
from support.manual_bus import ManualBus
from support.mirrors import assert_equal
from support.orders import order
from support.world import check_books

CONFIG = SchedulerConfig(
    enabled_filters=(*DEFAULT_FILTERS, "NUMATopologyFilter", "PciPassthroughFilter"),
    pci_alias=('{"name": "gpu", "vendor_id": "10de", "product_id": "1db4"}',),
)
PINNED = Flavor("p", "pinned", 2, 512, 1, extra_specs={"hw:cpu_policy": "dedicated"})
GPU = Flavor("g", "gpu", 1, 512, 1, extra_specs={"pci_passthrough:alias": "gpu:1"})
HUGE = Flavor("h", "huge", 1, 512, 1, extra_specs={"hw:mem_page_size": "2MB"})
SHARE = DeviceShare((CellShare(0, 512, pinned=frozenset({2, 3}), shares_cpus=False),), ((0, 1),))


def machine(name: str, **facts: object) -> SimulatedHost:
    """A host with two cells, each with 4 dedicated and 8 shared CPUs, 1 GiB in huge pages, and 3 GPUs beside one."""
    numa = tuple(
        SimulatedCell(2048, cpus=f"{at}-{at + 7}", dedicated=f"{at + 8}-{at + 11}", pages={"4": 262144, "2048": 512})
        for at in (0, 16)
    )
    return host(name, memory_mib=16384, numa=numa, pci=(SimulatedPool("10de", "1db4", 3, 1),), **facts)


@pytest.fixture
def start(open_database: Callable[[], Database], tmp_path: Path) -> Iterator[Callable[..., Cell]]:
    """Starts a control process with the hosts given."""

    def process(*hosts: SimulatedHost) -> Cell:
        folder = tmp_path / ("-".join(each.name for each in hosts) or "none")
        folder.mkdir()
        return start_cell(folder, hosts, database=open_database(), config=CONFIG, bus=ManualBus())

    return process


def as_mirrored(devices: HostDevices) -> HostDevices:
    """What mirrors know of a host: they count devices without addresses."""
    return device_json.devices_from_logged(device_json.as_logged(devices))


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


def devices_of(cell: Cell) -> list[HostDevices]:
    with cell.database.read() as connection:
        check_books(connection)
        return list(host_devices.list_all(connection).values())


def test_the_last_of_everything_goes_to_as_many_as_there_are(start: Callable[..., Cell]) -> None:
    cell = start(machine("a"), machine("b"))
    orders = [order(cell, flavor=(PINNED, GPU, HUGE)[number % 3]) for number in range(30)]
    assert place_at_once([cell], orders) == 8 + 6 + 8
    found = devices_of(cell)
    assert sum(len(each.pinned) for one in found for each in one.cells) == 16
    assert sum(pool.used for one in found for pool in one.pools) == 6
    assert [pages.used for one in found for each in one.cells for pages in each.pages] == [262144, 512] * 4
    assert not cell.mirror.assumed()
    assert_equal(cell.mirror, Mirror.follow(cell.database))


@pytest.mark.parametrize("kind", ["postgresql", "mariadb"], indirect=True)
def test_processes_that_race_for_the_last_ones_share_them(start: Callable[..., Cell]) -> None:
    one, other = start(machine("a")), start(machine("b"))
    orders = [order((one, other)[number % 2], flavor=(PINNED, GPU)[number // 2 % 2]) for number in range(24)]
    assert place_at_once([one, other], orders) == 8 + 6
    devices_of(one)
    for cell in (one, other):
        cell.mirror.catch_up()
        assert_equal(cell.mirror, Mirror.follow(one.database))


def test_servers_of_one_request_count_each_other(start: Callable[..., Cell]) -> None:
    cell = start(machine("a"))
    with pytest.raises(NoValidHost, match="NUMATopologyFilter"):
        cell.claimer.place(order(cell, 5, flavor=PINNED))
    assert not any(each.pinned for one in devices_of(cell) for each in one.cells)
    assert len(cell.claimer.place(order(cell, 4, flavor=PINNED)).workflows) == 4
    devices_of(cell)


def test_delete_gives_everything_back(start: Callable[..., Cell]) -> None:
    cell = start(machine("a"))
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


def test_a_host_that_fails_the_spawn_gets_its_cpus_back(start: Callable[..., Cell]) -> None:
    cell = start(machine("a", failing_spawns=-1), machine("b", failing_spawns=-1), machine("c", failing_spawns=1))
    idle = devices_of(cell)
    (uuid,) = cell.boot(flavor=PINNED)
    cell.bus.run()
    assert cell.check() == {uuid: VmState.ERROR}
    assert devices_of(cell) == idle


def test_a_claim_whose_fence_is_gone_takes_nothing(start: Callable[..., Cell]) -> None:
    cell = start(machine("a"))
    idle = devices_of(cell)
    wanted = order(cell, flavor=PINNED)
    plan = cell.claimer._plan(wanted)
    outcome = cell.database.submit_batched(commit_bundles, Bundle(tuple(plan.claims), "somebody else")).result()
    assert isinstance(outcome, InstancesGone)
    assert devices_of(cell) == idle
    cell.claimer._forget(plan.claims)
    assert cell.mirror.snapshot().devices_of(0) == as_mirrored(idle[0])


def test_a_claim_that_comes_too_late_is_lost_and_decided_again(start: Callable[..., Cell]) -> None:
    """The mirror knew nothing of the other, the guard row did."""
    cell = start(machine("a"))
    plan = cell.claimer._plan(order(cell, flavor=PINNED))
    (claim,) = plan.claims
    assert claim.devices is not None
    rival = Taking(new_uuid(), claim.node_uuid, claim.devices)
    assert cell.database.write(lambda tx: host_devices.take(tx, [rival]))
    with pytest.raises(ClaimLost, match="taken"):
        cell.database.submit_batched(commit_bundles, Bundle(tuple(plan.claims), cell.conductor.owner)).result()
    cell.claimer._forget(plan.claims)
    with cell.database.read() as connection:
        assert [taking.instance_uuid for taking in host_devices.shares(connection)] == [rival.instance_uuid]
        assert connection.execute(sa.select(t.allocations)).all() == []


def test_the_audit_finds_what_is_kept_for_nobody_and_counted_wrong(start: Callable[..., Cell]) -> None:
    cell = start(machine("a"))
    cell.boot(flavor=PINNED)
    cell.bus.run()
    right = devices_of(cell)

    def break_(tx: Transaction) -> None:
        tx.execute(sa.update(t.pci_pools).values(used=2))
        stray = {"instance_uuid": new_uuid(), "node_uuid": cell.mirror.snapshot().uuids[0]}
        tx.execute(sa.insert(t.device_shares), {**stray, "body": device_json.share_as_json(SHARE)})

    cell.database.write(break_)
    with cell.database.read() as connection:
        found = audit.find_all(connection)
    assert [finding.kind for finding in found] == ["devices", "devices"]
    for finding in found:
        cell.database.write(finding.mend)
    assert devices_of(cell) == right
    assert_equal(cell.mirror, Mirror.follow(cell.database))
    with cell.database.read() as connection:
        assert audit.find_all(connection) == ()


# --- the rows ---------------------------------------------------------------------------------------------------------


def cell_of(number: int, **changed: object) -> HostCell:
    facts = {"cpuset": frozenset({0, 1}), "pcpuset": frozenset({2, 3, 4}), "memory_mib": 1024, **changed}
    return HostCell(number, **facts)  # type: ignore[arg-type]


HARDWARE = HostDevices(
    (cell_of(0, siblings=(frozenset({2, 3}),), pages=(Pages(4, 1000, 10), Pages(2048, 8)), socket=1),),
    (PciPool(0, "10de", "1db4", 2, 0, tags=(("physical_network", "ü"),)), PciPool(1, "8086", "154d", 4)),
)


def reported(database: Database, devices: HostDevices) -> HostDevices:
    database.write(lambda tx: host_devices.report_all(tx, {"node": devices}))
    with database.read() as connection:
        return host_devices.get(connection, "node")


def versions(database: Database) -> list[int]:
    with database.read() as connection:
        return list(connection.execute(sa.select(t.numa_cells.c.version).order_by(t.numa_cells.c.cell)).scalars())


def take(database: Database, *takings: Taking) -> bool:
    """Take or leave no trace."""

    def job(tx: Transaction) -> None:
        if not host_devices.take(tx, takings):
            raise ClaimLost("short")

    try:
        database.write(job)
    except ClaimLost:
        return False
    return True


def test_what_is_reported_is_what_is_kept(database: Database) -> None:
    assert reported(database, HARDWARE) == HARDWARE
    assert versions(database) == [1]
    assert reported(database, replace(HARDWARE, pools=HARDWARE.pools[::-1])) == HARDWARE
    with database.read() as connection:
        assert host_devices.list_logged(connection) == {"node": device_json.as_logged(HARDWARE)}
    assert versions(database) == [1], "nothing differs, so nothing is written"


def test_guards(database: Database) -> None:
    reported(database, HARDWARE)
    assert take(database, Taking("one", "node", SHARE))
    assert not take(database, Taking("two", "node", replace(SHARE, devices=()))), "these CPUs are taken"
    assert not take(database, Taking("two", "node", DeviceShare(devices=((0, 2),)))), "one is left"
    assert not take(database, Taking("two", "elsewhere", SHARE))
    together = [Taking(name, "node", DeviceShare(devices=((1, 2),))) for name in ("two", "three", "four")]
    assert not take(database, *together)
    assert take(database, *together[:2])
    with database.read() as connection:
        assert {taking.instance_uuid for taking in host_devices.shares(connection)} == {"one", "two", "three"}
        assert host_devices.get(connection, "node").cells[0].pinned == {2, 3}
    for name in ("one", "two", "three", "three", "never"):
        database.write(lambda tx, name=name: host_devices.give_back(tx, name))  # type: ignore[misc]
    assert reported(database, HARDWARE) == HARDWARE


def test_other_hardware_keeps_what_servers_have(database: Database) -> None:
    reported(database, HARDWARE)
    assert take(database, Taking("one", "node", SHARE))
    more = replace(HARDWARE, cells=(*HARDWARE.cells, cell_of(1, cpuset=frozenset({8}), pcpuset=frozenset({9}))))
    found = reported(database, more)
    assert [sorted(each.pinned) for each in found.cells] == [[2, 3], []]
    assert [(pool.total, pool.used) for pool in found.pools] == [(2, 1), (4, 0)]
    without = reported(database, replace(more, pools=more.pools[1:]))
    assert [(pool.number, pool.total, pool.used) for pool in without.pools] == [(0, 0, 1), (1, 4, 0)]
    assert not take(database, Taking("two", "node", DeviceShare(devices=((0, 1),))))
    database.write(lambda tx: host_devices.give_back(tx, "one"))
    with database.read() as connection:
        assert [pool.number for pool in host_devices.get(connection, "node").pools] == [1]
        assert not any(each.pinned for each in host_devices.get(connection, "node").cells)


def test_a_pool_that_comes_back_is_the_one_it_was(database: Database) -> None:
    reported(database, HARDWARE)
    assert take(database, Taking("one", "node", SHARE))
    reported(database, replace(HARDWARE, pools=()))
    found = reported(database, HARDWARE)
    assert [(pool.number, pool.total, pool.used) for pool in found.pools] == [(0, 2, 1), (1, 4, 0)]


def test_cells_and_pools_go_with_their_hypervisor(start: Callable[..., Cell]) -> None:
    cell = start(machine("a"))
    assert cell.mirror.snapshot().devices_of(0).cells
    cell.database.write(lambda tx: compute_nodes.delete_of_host(tx, "a"))
    assert devices_of(cell) == []
    assert_equal(cell.mirror, Mirror.follow(cell.database))


def test_a_guest_is_told_which_cpus_and_devices_it_has(start: Callable[..., Cell]) -> None:
    cell = start(machine("a"))
    flavor = Flavor("x", "both", 2, 512, 1, extra_specs={**PINNED.extra_specs, **GPU.extra_specs})
    uuids = [*cell.boot(2, flavor=flavor), *cell.boot(flavor=SMALL)]
    cell.bus.run()
    told = {each.guest.uuid: each.guest.reserved for each in cell.bus.sent if isinstance(each, SpawnGuest)}
    assert told[uuids[2]] == GuestDevices()
    addresses = [device.address for uuid in uuids[:2] for device in told[uuid].devices]
    assert sorted(addresses) == ["0000:00:00.0", "0000:00:00.1"]
    for uuid in uuids[:2]:
        (guest_cell,) = told[uuid].cells
        assert guest_cell.vcpus == {0, 1}
        assert [vcpu for vcpu, _ in guest_cell.pinning] == [0, 1]
        (device,) = told[uuid].devices
        assert (device.vendor_id, device.product_id, device.numa_node) == ("10de", "1db4", 1)
    pinned = [cpu for uuid in uuids[:2] for _, cpu in told[uuid].cells[0].pinning]
    assert len(set(pinned)) == 4
    check_world_of(cell)


def check_world_of(cell: Cell) -> None:
    with cell.database.read() as connection:
        check_books(connection)


def test_devices_that_are_given_back_go_to_the_next(start: Callable[..., Cell]) -> None:
    cell = start(machine("a"))
    first, second = (cell.claimer.place(order(cell, flavor=GPU)).workflows[0].instance_uuid for _ in range(2))

    def address(uuid: str) -> str:
        check_world_of(cell)
        with cell.database.read() as connection:
            (device,) = host_devices.of_guest(connection, uuid).devices
        return device.address

    assert [address(first), address(second)] == ["0000:00:00.0", "0000:00:00.1"]
    cell.database.write(lambda tx: host_devices.give_back(tx, first))
    third = cell.claimer.place(order(cell, flavor=GPU)).workflows[0].instance_uuid
    assert address(third) == "0000:00:00.0"


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_servers_of_before_get_addresses_when_their_host_tells_them(start: Callable[..., Cell]) -> None:
    cell = start(machine("a"))
    uuids = [cell.claimer.place(order(cell, flavor=GPU)).workflows[0].instance_uuid for _ in range(2)]

    def forget(tx: Transaction) -> None:
        for table, column in ((t.pci_pools, "facts"), (t.device_shares, "body")):
            for row in tx.execute(sa.select(table)).mappings().all():
                kept = {name: value for name, value in row[column].items() if name != "addresses"}
                key = [each == row[each.name] for each in table.primary_key]
                tx.execute(sa.update(table).where(*key).values({column: kept}))

    def addresses() -> list[str]:
        with cell.database.read() as connection:
            return sorted(each.address for uuid in uuids for each in host_devices.of_guest(connection, uuid).devices)

    cell.database.write(forget)
    assert addresses() == []
    cell.announce()
    assert addresses() == ["0000:00:00.0", "0000:00:00.1"]
    check_world_of(cell)
