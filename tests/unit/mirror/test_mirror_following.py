# SPDX-License-Identifier: Apache-2.0
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta

import numpy as np
import pytest
import sqlalchemy as sa
from msgspec import structs
from sqlalchemy.engine import Connection

from kilonova.db import (
    aggregates,
    compute_nodes,
    instances,
    node_reports,
    providers,
    resource_classes,
    services,
)
from kilonova.db.change_log.changes import Change, Commit, LoggedAggregate, LoggedProvider, LoggedUse
from kilonova.db.core import (
    change_log,
)
from kilonova.db.core import tables as t
from kilonova.db.core.transaction import Transaction
from kilonova.db.database import Database
from kilonova.mirror.mirror import Mirror
from kilonova.mirror.provider_columns import ProviderColumns
from kilonova.mirror.state import Assumption
from kilonova.model.flavor import Flavor
from kilonova.model.host import Capabilities, NodeReport
from kilonova.model.host_devices import HostDevices
from kilonova.model.instance import Instance, VmState
from kilonova.model.numa import HostCell
from kilonova.model.provider import Inventory
from kilonova.scheduler.guests import guest_kind
from kilonova.scheduler.isolation_rules import Candidate
from support.mirrors import assert_equal, assert_use_adds_up, hosts_of, providers_of


def add_host(database: Database, name: str, vcpus: int = 8) -> str:
    def job(tx: Transaction) -> str:
        services.ensure(tx, name, "nova-compute")
        has = (Inventory("VCPU", vcpus),)
        (node,) = compute_nodes.report_all(tx, [NodeReport(name, name, Capabilities(), has)])
        node_reports.ensure_all(tx, [node_reports.ReportedProvider(node.uuid, name, has, ())])
        return node.uuid

    return database.write(job)


def used(mirror: Mirror) -> list[int]:
    table = mirror.snapshot()
    return table.used[:, table.resource_classes.index("VCPU")].tolist()


def test_an_empty_cloud(sqlite: Database) -> None:
    mirror = Mirror.follow(sqlite)
    assert len(mirror.snapshot()) == 0
    assert len(mirror.providers()) == 0


def test_a_snapshot_does_not_change_afterwards(sqlite: Database) -> None:
    mirror = Mirror.follow(sqlite)
    uuid = add_host(sqlite, "h0")
    before, known = mirror.snapshot(), hosts_of(mirror.snapshot())
    mirror.assume(Assumption("c", {uuid: {"VCPU": 3}}, "h0", "h0"))
    add_host(sqlite, "h1")
    assert hosts_of(before) == known
    assert used(mirror) == [3, 0]
    assert mirror.snapshot().num_instances.tolist() == [1, 0]
    assert mirror.snapshot().num_io_ops.tolist() == [1, 0]


def test_forgetting_twice_is_forgetting_once(sqlite: Database) -> None:
    mirror = Mirror.follow(sqlite)
    uuid = add_host(sqlite, "h0")
    mirror.assume(Assumption("c", {uuid: {"VCPU": 3}}, "h0", "h0", "group"))
    for _ in range(2):
        mirror.forget("c")
    assert used(mirror) == [0]
    assert mirror.snapshot().num_instances.tolist() == [0]


def test_a_commit_confirms_its_own_claims(sqlite: Database) -> None:
    mirror = Mirror.follow(sqlite)
    uuid = add_host(sqlite, "h0")
    mirror.assume(Assumption("c", {uuid: {"VCPU": 3}}, "h0", "h0"))

    def job(tx: Transaction) -> None:
        tx.claims.append("c")
        tx.log("usage", uuid, LoggedUse(9, {"VCPU": 3}))

    sqlite.write(job)
    assert used(mirror) == [3]
    assert not mirror.assumed()
    mirror.forget("c")
    assert used(mirror) == [3]


def test_a_claim_that_came_in_with_a_reload_is_not_counted_twice(sqlite: Database) -> None:
    """Its commit may reach a listener after another thread has loaded everything anew."""
    mirror = Mirror.follow(sqlite)
    uuid = add_host(sqlite, "h0")
    mirror.assume(Assumption("c", {uuid: {"VCPU": 3}}, "h0", "h0"))
    mirror.reload()
    assert used(mirror) == [3]
    mirror.on_commit(Commit(mirror.seq, (), ("c",)))
    assert used(mirror) == [0]
    assert_use_adds_up(mirror)


def test_a_claim_whose_own_commit_comes_in_with_a_reload_is_not_counted_twice(sqlite: Database) -> None:
    """The last load broke half-way, so the commit cannot be followed and everything is loaded again."""
    mirror = Mirror.follow(sqlite)
    uuid = add_host(sqlite, "h0")
    mirror.assume(Assumption("c", {uuid: {"VCPU": 3}}, "h0", "h0"))
    mirror.seq = -1

    def job(tx: Transaction) -> None:
        tx.claims.append("c")
        tx.log("metrics", "x", {})

    sqlite.write(job)
    assert not mirror.assumed()
    assert used(mirror) == [0]
    assert_equal(mirror, Mirror.follow(sqlite))


def test_nobody_decides_on_what_a_broken_load_left_behind(sqlite: Database) -> None:
    mirror = Mirror.follow(sqlite)
    add_host(sqlite, "h0")
    broken = Mirror(sqlite)
    broken.seq = -1
    assert broken.snapshot().hosts == mirror.snapshot().hosts == ("h0",)


def test_a_change_that_cannot_be_followed_makes_it_load_anew(
    sqlite: Database, caplog: pytest.LogCaptureFixture
) -> None:
    mirror = Mirror.follow(sqlite)
    uuid = add_host(sqlite, "h0")
    mirror.assume(Assumption("c", {uuid: {"VCPU": 3}}, "h0", "h0"))

    def job(tx: Transaction) -> None:
        tx.log("aggregate", "no number", LoggedAggregate("", "", (), {}))
        tx.claims.append("c")

    sqlite.write(job)
    assert "could not be applied to the mirror" in caplog.text
    add_host(sqlite, "h1")
    assert used(mirror) == [0, 0]
    assert_equal(mirror, Mirror.follow(sqlite))


class Silent(Database):
    """Looks like a server that does not answer until it is let."""

    answers = threading.Event()

    def newest_seq(self) -> int:
        assert self.answers.wait(20)
        return 0


def test_who_waits_for_the_database_holds_up_nobody_else(sqlite: Database) -> None:
    mirror = Mirror.follow(sqlite)
    uuid = add_host(sqlite, "h0")
    mirror.database = silent = Silent(str(sqlite.url))
    silent.is_sole_process = False
    with ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(mirror.snapshot), pool.submit(mirror.providers)]
        mirror.assume(Assumption("c", {uuid: {"VCPU": 3}}, "h0", "h0"))
        assert mirror.hosts().num_instances.tolist() == [1]
        add_host(sqlite, "h1")
        assert mirror.hosts().hosts == ("h0", "h1")
        mirror.forget("c")
        assert not any(each.done() for each in waiting)
        silent.answers.set()
    assert waiting[0].result().hosts == ("h0", "h1")
    silent.close()


class Busy(Database):
    """Somebody writes just before a load ends: what is loaded does not have it."""

    meanwhile: "Callable[[], Future[str]] | None" = None

    @contextmanager
    def read(self, *, patient: bool = False) -> Iterator[Connection]:
        with super().read(patient=patient) as connection:
            yield connection
            if patient and self.meanwhile is not None:
                begin, self.meanwhile = self.meanwhile, None
                before = self.seq()
                self.writing = begin()
                while self.seq() == before:
                    time.sleep(0.001)

    def seq(self) -> int:
        with super().read() as connection:
            return int(connection.execute(sa.select(t.change_counter.c.seq)).scalar_one())


def test_a_commit_during_a_load_is_not_lost(sqlite: Database) -> None:
    database = Busy(str(sqlite.url))
    mirror = Mirror.follow(database)
    uuid = add_host(database, "h0")
    mirror.assume(Assumption("c", {uuid: {"VCPU": 3}}, "h0", "h0"))
    with ThreadPoolExecutor(1) as pool:
        database.meanwhile = lambda: pool.submit(add_host, database, "h1")
        mirror.reload()
        assert database.writing.result(20)
    assert used(mirror) == [3, 0]
    assert_use_adds_up(mirror)
    database.close()


def test_catching_up_from_the_log_of_another_process(sqlite: Database) -> None:
    other = Database(str(sqlite.url))
    mirror = Mirror.follow(other)
    for name in ("h0", "h1"):
        add_host(sqlite, name)
    assert len(mirror.snapshot()) == 0, "on SQLite nobody else writes, so nothing is looked up"
    mirror._read_up_to(mirror.seq + 1)
    assert_equal(mirror, Mirror.follow(sqlite))
    other.close()


@pytest.mark.parametrize("kept", [0, 1])
def test_a_mirror_behind_the_oldest_row_loads_anew(sqlite: Database, kept: int) -> None:
    other = Database(str(sqlite.url))
    mirror = Mirror.follow(other)
    add_host(sqlite, "h0")
    sqlite.write(lambda tx: change_log.trim(tx, timedelta(seconds=-60)))
    for number in range(kept):
        add_host(sqlite, f"late{number}")
    mirror._read_up_to(mirror.seq + 1)
    assert len(mirror.snapshot()) == 1 + kept
    assert_equal(mirror, Mirror.follow(sqlite))
    other.close()


def test_commits_of_others_in_between_are_fetched(sqlite: Database) -> None:
    other = Database(str(sqlite.url))
    mirror = Mirror.follow(other)
    add_host(sqlite, "h0")
    add_host(other, "h1")
    assert mirror.snapshot().hosts == ("h0", "h1")
    other.close()


def test_a_provider_without_a_service_is_no_host(sqlite: Database) -> None:
    mirror = Mirror.follow(sqlite)
    sqlite.write(lambda tx: providers.create(tx, "00000000-0000-4000-8000-000000000001", "storage"))
    assert len(mirror.snapshot()) == 0
    assert len(mirror.providers()) == 1


def test_a_class_under_a_new_name_keeps_its_use(sqlite: Database) -> None:
    mirror = Mirror.follow(sqlite)
    sqlite.write(lambda tx: resource_classes.create(tx, "CUSTOM_A"))
    sqlite.write(lambda tx: resource_classes.rename(tx, "CUSTOM_A", "CUSTOM_Z"))
    assert_equal(mirror, Mirror.follow(sqlite))


def value(number: int, **has: int) -> LoggedProvider:
    figures = {name: (total, 0, 1, total, 1, 1.0, total, 0) for name, total in has.items()}
    return LoggedProvider(number, f"p{number}", 0, f"u{number}", None, figures, [], [])


def test_rows_are_in_order_of_ids_however_they_come() -> None:
    """Ties are broken by row, so two processes must agree on the rows."""
    rng = np.random.default_rng(3)
    columns, sorted_ones = ProviderColumns(), ProviderColumns()
    for number in rng.permutation(200).tolist():
        columns.set(f"u{number}", value(number, VCPU=number + 1))
        columns.assume(f"u{number}", {"VCPU": number}, 1)
    for number in range(200):
        sorted_ones.set(f"u{number}", value(number, VCPU=number + 1))
        sorted_ones.assume(f"u{number}", {"VCPU": number}, 1)
    assert columns.uuids == sorted_ones.uuids
    assert providers_of(columns.table()) == providers_of(sorted_ones.table())
    for number in rng.permutation(200)[:150].tolist():
        columns.remove(f"u{number}")
        sorted_ones.remove(f"u{number}")
    assert providers_of(columns.table()) == providers_of(sorted_ones.table())
    assert all(columns.uuids[row] == uuid for uuid, row in columns.row_of.items())


def test_a_provider_that_goes_takes_its_assumptions_along(sqlite: Database) -> None:
    mirror = Mirror.follow(sqlite)
    uuid = "00000000-0000-4000-8000-000000000001"
    sqlite.write(lambda tx: providers.create(tx, uuid, "p"))
    mirror.assume(Assumption("c", {uuid: {"VCPU": 3}}, "h", "h"))
    sqlite.write(lambda tx: providers.delete(tx, uuid))
    sqlite.write(lambda tx: providers.create(tx, uuid, "p"))
    mirror.forget("c")
    assert_use_adds_up(mirror)


def test_a_provider_made_anew_in_the_commit_that_deleted_it_is_another_one(sqlite: Database) -> None:
    mirror = Mirror.follow(sqlite)
    uuids = [f"00000000-0000-4000-8000-00000000000{number}" for number in range(3)]
    for uuid in uuids:
        sqlite.write(lambda tx, uuid=uuid: providers.create(tx, uuid, uuid))  # type: ignore[misc]
    mirror.assume(Assumption("c", {uuids[0]: {"VCPU": 3}}, "h", "h"))

    def job(tx: Transaction) -> None:
        providers.delete(tx, uuids[0])
        providers.create(tx, uuids[0], "p")

    sqlite.write(job)
    mirror.forget("c")
    assert mirror.providers().uuids == (uuids[1], uuids[2], uuids[0])
    assert_use_adds_up(mirror)
    assert_equal(mirror, Mirror.follow(sqlite))


def test_what_is_tried_apart_reaches_no_state_of_the_mirror(sqlite: Database) -> None:
    mirror = Mirror.follow(sqlite)
    add_host(sqlite, "h0")
    apart = mirror.snapshot_apart()
    before = len(mirror.snapshot().device_states)
    cells = HostDevices((HostCell(0, cpuset=frozenset({0, 1}), memory_mib=1024),))
    number = apart.device_states.number(cells)
    assert apart.device_states[number] == cells
    assert len(mirror.snapshot().device_states) == before


def test_a_broken_isolation_rule_in_the_database_is_logged(sqlite: Database, caplog: pytest.LogCaptureFixture) -> None:
    add_host(sqlite, "h0")
    made = sqlite.write(lambda tx: aggregates.create(tx, "pool"))
    sqlite.write(lambda tx: aggregates.add_host(tx, made.id, "h0", default_zone="nova"))
    sqlite.write(lambda tx: aggregates.set_metadata(tx, made.id, {"kilonova:only": "flavour=db"}))
    isolation = Mirror.follow(sqlite).snapshot().aggregates.isolation
    assert isolation is not None
    assert not isolation.hosts_under(isolation.met_by(Candidate(Flavor("1", "m1", 1, 1, 1), None, "p"))).any()
    assert "Hosts of aggregate pool (id 1) are closed to all servers: kilonova:only: cannot read a cond" in caplog.text


def test_a_broken_isolation_rule_of_the_past_is_nobodys_concern(caplog: pytest.LogCaptureFixture) -> None:
    pool = LoggedAggregate("u", "pool", ["h0"], {"kilonova:only": "flavour=db"})
    mirror = Mirror.of([Change("aggregate", "1", pool)], 3, now=9.0)
    mirror.replay([Commit(4, (Change("aggregate", "1", structs.replace(pool, name="renamed")),), ())])
    assert mirror.snapshot().aggregates.isolation is not None
    assert caplog.text == ""


def add_server(database: Database, uuid: str, host: str, flavor_id: str) -> None:
    def job(tx: Transaction) -> None:
        flavor = Flavor(flavor_id, "m1", 1, 1, 1)
        instances.insert(tx, [(Instance(0, uuid, "vm", "p", "u", VmState.ACTIVE, flavor), None)])
        instances.change(tx, uuid, host=host, node=host)

    database.write(job)


def test_an_older_table_knows_its_servers_after_a_reload(sqlite: Database) -> None:
    """Whatever is loaded first then."""
    mirror = Mirror.follow(sqlite)
    add_host(sqlite, "h0")
    for number in (1, 2):
        add_host(sqlite, f"h{number}")
        add_server(sqlite, f"00000000-0000-4000-8000-{number:012}", f"h{number}", f"flavor{number}")
    before, apart = mirror.snapshot(), mirror.snapshot_apart()
    known = dict(before.instance_rows)
    assert sorted(known.values()) == [1, 2]
    sqlite.write(lambda tx: services.delete(tx, services.get_by_host(tx.connection, "h0").uuid))
    mirror.reload()
    assert mirror.snapshot().hosts == ("h1", "h2")
    assert dict(before.instance_rows) == known
    assert dict(apart.instance_rows) == known
    assert before.guests.of_other_flavors("flavor1").tolist() == [0, 0, 1]
    assert_equal(mirror, Mirror.follow(sqlite))


def test_metrics_are_followed_and_forgotten(sqlite: Database) -> None:
    mirror = Mirror.follow(sqlite)
    for name in ("h0", "h1"):
        add_host(sqlite, name)

    def say(name: str, **metrics: float) -> None:
        said = NodeReport(name, name, Capabilities(), (), metrics=metrics)
        sqlite.write(lambda tx: compute_nodes.report_all(tx, [said]))

    kinds: list[str] = []
    sqlite.on_commit(lambda commit: kinds.extend(change.kind for change in commit.changes))
    before = mirror.snapshot()
    say("h0", cpu=0.5, power=10.0)
    say("h0", cpu=0.5, power=10.0)
    assert kinds == ["metrics"], "only what differs, and the layout stays"
    table = mirror.snapshot()
    assert table.metric("cpu").tolist()[0] == 0.5
    assert np.isnan(table.metric("cpu")[1])
    say("h1", cpu=0.75)
    say("h0", cpu=1.0)
    assert np.isnan(before.metric("cpu")).all()
    assert table.metric("cpu").tolist()[0] == 0.5, "a snapshot does not change"
    assert mirror.snapshot().metric("cpu").tolist() == [1.0, 0.75]
    assert np.isnan(mirror.snapshot().metric("power")).all()
    assert_equal(mirror, Mirror.follow(sqlite))
    sqlite.write(lambda tx: compute_nodes.delete_of_host(tx, "h0"))
    assert mirror.snapshot().metric("cpu").tolist() == [0.75]
    assert_equal(mirror, Mirror.follow(sqlite))


def test_assumed_instances_count_for_rules_that_ask_what_is_on_a_host(sqlite: Database) -> None:
    mirror = Mirror.follow(sqlite)
    uuid = add_host(sqlite, "h0")
    ubuntu = guest_kind("1", {"os_distro": "ubuntu"})
    mirror.assume(Assumption("before", {uuid: {"VCPU": 1}}, "h0", "h0", None, ubuntu))
    guests = mirror.snapshot().guests
    assert guests.of_other_flavors("2").tolist() == [1]
    mirror.assume(Assumption("after", {uuid: {"VCPU": 1}}, "h0", "h0", None, ubuntu))
    add_host(sqlite, "h1")
    assert mirror.snapshot().guests.with_image_property("os_distro", "ubuntu").tolist() == [2, 0]
    mirror.forget("before")
    assert mirror.snapshot().guests.of_other_flavors("2").tolist() == [1, 0]
    assert guests.of_other_flavors("2").tolist() == [1], "an older table keeps its rows"
    mirror.forget("after")
    assert_equal(mirror, Mirror.follow(sqlite))
