# SPDX-License-Identifier: Apache-2.0
import threading
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa

from kilonova.claims.claimer import Order, Placed
from kilonova.cli.wiring.rules import build_engine
from kilonova.db import instances, resource_classes, workflows
from kilonova.db.core import tables as t
from kilonova.db.core.transaction import Transaction
from kilonova.errors import NoValidHost, RuleFailed
from kilonova.mirror.mirror import Mirror
from kilonova.model.flavor import Flavor
from kilonova.model.instance import TaskState
from kilonova.model.request_spec import RequestSpec
from kilonova.scenario.model import SimulatedHost
from kilonova.scheduler.decision import Decision, RankedHost
from kilonova.scheduler.engine.engine import Engine
from kilonova.scheduler.engine.provider_trees import Allotment
from kilonova.scheduler.filters import IoOpsFilter
from kilonova.scheduler.host_table import BoolArray, HostTable
from kilonova.scheduler.settings import SchedulerConfig
from support.cell import Cell, NewCell, host
from support.mirrors import assert_equal, assert_use_adds_up
from support.orders import generations, hosts_of, order
from support.world import check_books


def check(cell: Cell) -> None:
    with cell.database.read() as connection:
        check_books(connection)
    assert not cell.mirror.assumed()
    assert_use_adds_up(cell.mirror)
    assert_equal(cell.mirror, Mirror.follow(cell.database))


def place_all(cell: Cell, orders: Sequence[Order]) -> list[Placed | NoValidHost]:
    """Place orders at the same moment, a thread each."""
    start = threading.Barrier(len(orders))

    def one(wanted: Order) -> Placed | NoValidHost:
        start.wait(30)
        try:
            return cell.claimer.place(wanted)
        except NoValidHost as error:
            return error

    with ThreadPoolExecutor(len(orders)) as pool:
        return list(pool.map(one, orders))


def five_hosts_for_forty() -> list[SimulatedHost]:
    return [host(f"node{n}", vcpus=8, memory_mib=65536) for n in range(5)]


class Liar:
    """An engine that offers the fullest host first, whatever is used there: every claim after the first few is lost.

    ``lies``: how many more decisions are lies.
    """

    def __init__(self, lies: int) -> None:
        self._engine = build_engine(SchedulerConfig())
        self.filters, self.weighers = self._engine.filters, self._engine.weighers
        self._lies = lies
        self._lock = threading.Lock()
        self.told = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def decide(self, hosts: HostTable, spec: Any, **options: Any) -> Decision:
        honest = self._engine.decide(hosts, spec, **options)
        with self._lock:
            if not self._lies or not len(hosts):
                return honest
            self._lies -= 1
            self.told += 1
        row = int(hosts.used[:, hosts.resource_classes.index("VCPU")].argmax())
        lie = RankedHost(row, hosts.hosts[row], hosts.nodes[row], hosts.uuids[row], 9.0)
        return replace(honest, ranked=(lie, *honest.ranked))


@pytest.mark.parametrize("lies", [0, 200])
def test_64_at_once_for_room_for_40(cell_of: NewCell, lies: int) -> None:
    engine = Liar(lies)
    cell = cell_of(*five_hosts_for_forty(), engine=engine)
    results = place_all(cell, [order(cell) for _ in range(64)])
    assert Counter(type(result) for result in results) == {Placed: 40, NoValidHost: 24}
    assert engine.told == lies
    check(cell)
    table = cell.mirror.snapshot()
    assert table.used[:, table.resource_classes.index("VCPU")].tolist() == [8] * 5


def test_an_engine_that_never_tells_the_truth_ends_in_an_error(cell_of: NewCell) -> None:
    cell = cell_of(host("node1", vcpus=1), engine=Liar(10**6))
    cell.claimer.place(order(cell))
    with pytest.raises(NoValidHost, match="another request was faster"):
        cell.claimer.place(order(cell))
    check(cell)


def test_a_generation_rises_by_one_per_commit(cell_of: NewCell) -> None:
    cell = cell_of(host("node1", vcpus=64, memory_mib=65536))
    before = generations(cell)["node1"]
    commits = []
    cell.database.on_commit(commits.append)
    place_all(cell, [order(cell) for _ in range(16)])
    usage = [change for commit in commits for change in commit.changes if change.kind == "usage"]
    assert generations(cell)["node1"] == before + len(usage) == usage[-1].value.generation
    check(cell)


def test_all_servers_of_an_order_or_none(cell_of: NewCell) -> None:
    cell = cell_of(host("node1"), host("node2"))
    with pytest.raises(NoValidHost, match="for server 9 of 9"):
        cell.claimer.place(order(cell, 9))
    check(cell)
    assert set(cell.mirror.snapshot().used.flat) == {0}
    wanted = order(cell, 8)
    placed = cell.claimer.place(wanted)
    assert [flow.instance_uuid for flow in placed.workflows] == list(wanted.spec.instance_uuids)
    assert Counter(hosts_of(cell, wanted.spec.instance_uuids)) == {"node1": 4, "node2": 4}
    check(cell)


def test_orders_of_many_compete_without_halves(cell_of: NewCell) -> None:
    cell = cell_of(*five_hosts_for_forty(), engine=Liar(60))
    orders = [order(cell, 6) for _ in range(10)]
    results = place_all(cell, orders)
    assert sum(isinstance(result, Placed) for result in results) == 6
    for wanted, result in zip(orders, results, strict=True):
        found = hosts_of(cell, wanted.spec.instance_uuids)
        assert all(found) if isinstance(result, Placed) else not any(found)
    check(cell)


def test_one_poisoned_order_does_not_harm_its_neighbours(cell_of: NewCell) -> None:
    """A consumer of that name exists already, which no guard foresees."""
    cell = cell_of(*five_hosts_for_forty())
    orders = [order(cell) for _ in range(12)]
    poisoned = orders[5].spec.instance_uuids[0]
    row = {"uuid": poisoned, "project_id": "p", "user_id": "u", "generation": 0}
    cell.database.write(lambda tx: tx.execute(sa.insert(t.consumers), {**row, "created_at": tx.now}))
    failures: list[BaseException] = []

    def one(wanted: Order) -> None:
        try:
            cell.claimer.place(wanted)
        except sa.exc.IntegrityError as error:
            failures.append(error)

    with ThreadPoolExecutor(12) as pool:
        list(pool.map(one, orders))
    assert len(failures) == 1
    placed = [hosts_of(cell, wanted.spec.instance_uuids)[0] is not None for wanted in orders]
    assert placed == [index != 5 for index in range(12)]
    check(cell)


@pytest.mark.parametrize("how", ["deleted", "deleting"])
def test_an_instance_that_is_gone_is_left_out(cell_of: NewCell, how: str) -> None:
    cell = cell_of(host("node1"))
    wanted = order(cell, 3)
    gone = wanted.spec.instance_uuids[1]

    def remove(tx: Transaction) -> None:
        if how == "deleted":
            instances.mark_deleted(tx, gone)
        else:
            instances.change(tx, gone, task_state=TaskState.DELETING)

    cell.database.write(remove)
    placed = cell.claimer.place(wanted)
    assert placed.gone == {gone}
    assert [flow.instance_uuid for flow in placed.workflows] == [
        uuid for uuid in wanted.spec.instance_uuids if uuid != gone
    ]
    check(cell)


@pytest.mark.parametrize("change", [{"owner": "other-process"}, {"version": 7}])
def test_a_workflow_that_is_no_longer_ours_claims_nothing(cell_of: NewCell, change: dict[str, Any]) -> None:
    cell = cell_of(host("node1"))
    wanted = order(cell)
    cell.database.write(lambda tx: tx.execute(sa.update(t.workflows).values(change)))
    placed = cell.claimer.place(wanted)
    assert placed == Placed((), frozenset(wanted.spec.instance_uuids))
    assert hosts_of(cell, wanted.spec.instance_uuids) == [None]
    check(cell)


def test_the_workflow_remembers_where(cell_of: NewCell) -> None:
    cell = cell_of(host("node1"))
    placed = cell.claimer.place(order(cell))
    (flow,) = placed.workflows
    assert (flow.facts["host"], flow.facts["node"]) == ("node1", "node1")
    with cell.database.read() as connection:
        stored = workflows.get(connection, flow.uuid, cell.conductor.owner)
    assert stored is not None
    assert (stored.step, stored.version, stored.facts["host"], stored.facts["node"]) == ("spawn", 1, "node1", "node1")


@pytest.mark.parametrize(("limit", "placed"), [(1, 5), (2, 10)])
@pytest.mark.parametrize("lies", [0, 60])
def test_anti_affinity_holds_at_once(cell_of: NewCell, limit: int, placed: int, lies: int) -> None:
    cell = cell_of(*five_hosts_for_forty(), engine=Liar(lies))
    group = cell.add_group("anti-affinity", limit)
    orders = [order(cell, group=group) for _ in range(16)]
    results = place_all(cell, orders)
    assert sum(isinstance(result, Placed) for result in results) == placed
    found = Counter(host for wanted in orders for host in hosts_of(cell, wanted.spec.instance_uuids) if host)
    assert set(found.values()) == {limit}
    check(cell)


@pytest.mark.parametrize("lies", [0, 60])
def test_affinity_holds_at_once(cell_of: NewCell, lies: int) -> None:
    cell = cell_of(*five_hosts_for_forty(), engine=Liar(lies))
    group = cell.add_group("affinity")
    orders = [order(cell, group=group) for _ in range(12)]
    results = place_all(cell, orders)
    assert sum(isinstance(result, Placed) for result in results) == 8
    found = {host for wanted in orders for host in hosts_of(cell, wanted.spec.instance_uuids) if host}
    assert len(found) == 1
    check(cell)


def test_groups_do_not_mind_each_other(cell_of: NewCell) -> None:
    cell = cell_of(*five_hosts_for_forty())
    groups = [cell.add_group(policy) for policy in ("affinity", "anti-affinity", "soft-affinity", "soft-anti-affinity")]
    orders = [order(cell, group=group) for group in groups for _ in range(4)]
    assert all(isinstance(result, Placed) for result in place_all(cell, orders))
    check(cell)


def test_a_class_made_anew_is_found_under_its_new_id(cell_of: NewCell) -> None:
    cell = cell_of(host("node1"))
    flavor = Flavor("7", "f", 1, 512, 1, extra_specs={"resources:CUSTOM_GOLD": "1"})
    cell.database.write(lambda tx: resource_classes.create(tx, "CUSTOM_GOLD"))
    with pytest.raises(NoValidHost):
        cell.claimer.place(order(cell, flavor=flavor))
    with cell.database.read() as connection:
        names = [each.name for each in resource_classes.list_all(connection)]
        cell.claimer._class_ids = dict(resource_classes.ids(connection, names))
    cell.database.write(lambda tx: resource_classes.delete(tx, "CUSTOM_GOLD"))
    cell.database.write(lambda tx: resource_classes.create(tx, "CUSTOM_OTHER"))
    later = cell.restart(inventories={"CUSTOM_GOLD": 4})
    cell.mirror._read_up_to(cell.mirror.seq + 1)
    cell.claimer.place(order(cell, flavor=flavor))
    check(cell)
    later.database.close()


class Breaks(IoOpsFilter):
    """Passes everybody until a server is on its way somewhere; then it breaks."""

    def passes(self, hosts: HostTable, spec: RequestSpec) -> BoolArray:
        if hosts.num_io_ops.any():
            raise ZeroDivisionError
        return super().passes(hosts, spec)


def test_an_engine_that_breaks_half_way_leaves_no_assumption(cell_of: NewCell) -> None:
    cell = cell_of(host("node1"), engine=Engine((), (Breaks(),)))
    with pytest.raises(RuleFailed):
        cell.claimer.place(order(cell, 3))
    check(cell)


def test_many_of_one_request_are_placed_as_one_after_the_other_would_be_and_leave_alternates(cell_of: NewCell) -> None:
    cell = cell_of(*(host(f"node{n}", vcpus=2, memory_mib=65536 - n) for n in range(5)))
    group = cell.add_group("anti-affinity")
    placed = cell.claimer.place(order(cell, 3, group=group))
    assert [flow.facts["host"] for flow in placed.workflows] == ["node0", "node1", "node2"]
    assert [each.host for each in placed.alternates] == ["node3", "node4"]
    single = cell.claimer.place(order(cell, group=group))
    assert [flow.facts["host"] for flow in single.workflows] == ["node3"]
    assert [each.host for each in single.alternates] == ["node4"]
    with pytest.raises(NoValidHost, match="for server 2 of 2"):
        cell.claimer.place(order(cell, 2, group=group))
    check(cell)


class Mute:
    """Chooses a provider that the mirror does not know: what comes after the decision breaks."""

    takes_chances = False

    def decide(self, hosts: HostTable, _spec: object, **_: object) -> Decision:
        return build_engine(SchedulerConfig()).decide(hosts, _spec, limit=1)  # type: ignore[arg-type]

    def allotment(self, hosts: HostTable, spec: RequestSpec, row: int) -> Allotment:
        honest = build_engine(SchedulerConfig()).allocations(hosts, spec, row)
        return Allotment({"nobody": honest[hosts.uuids[row]]})


def test_a_claim_that_cannot_be_made_leaves_no_assumption(cell_of: NewCell) -> None:
    cell = cell_of(host("node1"), engine=Mute())
    with pytest.raises(KeyError):
        cell.claimer.place(order(cell))
    check(cell)
