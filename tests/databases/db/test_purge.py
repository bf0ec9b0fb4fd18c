# SPDX-License-Identifier: Apache-2.0
"""A purge removes deleted servers with all their rows, and no other row."""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
import sqlalchemy as sa

from kilonova.clock import utc_now
from kilonova.conductor.periodic.purger import Purger
from kilonova.db import decisions, instances, purge, request_specs, services
from kilonova.db.audits import audit
from kilonova.db.core import tables as t
from kilonova.db.core.transaction import Transaction
from kilonova.db.database import Database
from kilonova.identifiers import new_uuid
from kilonova.model.flavor import Flavor
from kilonova.model.instance import Fault, Instance, VmState
from kilonova.model.request_spec import RequestSpec, StoredRequest
from support.waiting import wait_until

ABOUT_SERVERS = ("instances", "instance_tags", "instance_faults", "request_specs", "decisions", "circumstances")


def add_request(database: Database, gone_days_ago: list[int | None]) -> list[str]:
    """Store one request with a server for each entry, deleted so many days ago, or alive; return their uuids."""
    flavor = Flavor("1", "f", 1, 512, 1)
    spec_uuid = new_uuid()
    facts = {"tags": ("a", "b"), "request_spec_uuid": spec_uuid}
    servers = [Instance(0, new_uuid(), "vm", "p", "u", VmState.ACTIVE, flavor, **facts) for _ in gone_days_ago]
    uuids = [server.uuid for server in servers]

    def job(tx: Transaction) -> None:
        spec = RequestSpec(flavor=flavor, image=None, project_id="p", user_id="u", request_id=f"req-{uuids[0]}")
        inputs = new_uuid()
        instances.insert(tx, [(server, None) for server in servers])
        request_specs.insert(tx, [StoredRequest(spec_uuid, spec, None, None)])
        decisions.insert_inputs(tx, {inputs: b"inputs"})
        for server, days in zip(servers, gone_days_ago, strict=True):
            instances.record_fault(tx, server.uuid, Fault(500, "broke", "x"))
            tx.execute(
                sa.insert(t.decisions),
                {
                    "request_id": spec.request_id,
                    "instance_uuid": server.uuid,
                    "created_at": tx.now,
                    "seq": 1,
                    "body": {},
                    "removed_by": b"",
                    "roster": "r",
                    "circumstances_id": inputs,
                },
            )
            if days is not None:
                instances.mark_deleted(tx, server.uuid)
                then = tx.now - timedelta(days=days)
                tx.execute(sa.update(t.instances).where(t.instances.c.uuid == server.uuid).values(deleted_at=then))

    database.write(job)
    return uuids


def rows(database: Database) -> dict[str, int]:
    with database.read() as connection:
        return {
            name: connection.execute(sa.select(sa.func.count()).select_from(t.metadata.tables[name])).scalar_one()
            for name in ABOUT_SERVERS
        }


def test_what_is_left_of_projects_and_hosts_that_are_gone_goes(database: Database) -> None:
    long_ago = utc_now() - timedelta(days=100)

    def job(tx: Transaction) -> None:
        services.ensure(tx, "node1", services.COMPUTE)
        nothing = {"instances": 0, "cores": 0, "ram": 0, "limits": {}}
        accounts = [{"project_id": f"p{number:04}", "user_id": "", **nothing} for number in range(600)]
        tx.execute(sa.insert(t.quotas), accounts)
        tx.execute(sa.insert(t.quotas), {"project_id": "limited", "user_id": "", **nothing, "limits": {"cores": 1}})
        tx.execute(sa.insert(t.quotas), {"project_id": "used", "user_id": "", **nothing, "ram": 1})
        for host in ("node1", "lost"):
            for then in (long_ago, tx.now):
                row = {"host": host, "instance_uuid": new_uuid(), "created_at": then}
                tx.execute(sa.insert(t.departures), {**row, "departure": "left"})
                odd = {"oddity": "unknown", "power_state": 1, "recorded_host": None}
                tx.execute(sa.insert(t.odd_guests), {**row, **odd})

    database.write(job)
    before = utc_now() - timedelta(days=30)
    expected = {"quotas": 600, "departures": 1, "odd_guests": 1}
    with database.read() as connection:
        assert {name: count for name, count in purge.kept_for_deleted(connection, before).items() if count} == expected
    removed = purge.purge(database, before, rest=lambda _seconds: None)
    assert {name: count for name, count in removed.items() if count} == expected
    with database.read() as connection:
        assert set(connection.execute(sa.select(t.quotas.c.project_id)).scalars()) == {"limited", "used"}
        assert len(connection.execute(sa.select(t.departures)).all()) == 3
    assert not any(purge.purge(database, before, rest=lambda _seconds: None).values())


@pytest.mark.parametrize("at_once", [1, 100])
def test_what_was_deleted_before_goes_and_all_else_stays(database: Database, at_once: int) -> None:
    add_request(database, [100, 100])
    shared = add_request(database, [100, None, 10])
    alive = add_request(database, [None])
    before = utc_now() - timedelta(days=30)
    with database.read() as connection:
        foretold = purge.kept_for_deleted(connection, before)
        wrong_before = {(finding.kind, finding.where) for finding in audit.find_all(connection)}
    seen: list[int] = []
    removed = purge.purge(database, before, at_once=at_once, on_progress=seen.append, rest=lambda _s: None)
    assert sum(seen) == 3
    assert removed["instances"] == 3
    assert {name: removed.get(name, 0) for name in foretold} == foretold
    assert foretold["request_specs"] == 1
    assert removed["circumstances"] == 1
    left = rows(database)
    assert left["instances"] == len([*shared[1:], *alive])
    assert left == {
        "instances": 3,
        "instance_tags": 6,
        "instance_faults": 3,
        "request_specs": 2,
        "decisions": 3,
        "circumstances": 2,
    }
    with database.read() as connection:
        assert {(finding.kind, finding.where) for finding in audit.find_all(connection)} <= wrong_before
    assert not purge.purge(database, before, rest=lambda _s: None)


def test_others_write_between_two_pieces(database: Database) -> None:
    add_request(database, [100] * 6)
    between: list[int] = []

    def rest(_seconds: float) -> None:
        writer = threading.Thread(target=lambda: between.append(len(add_request(database, [None]))))
        writer.start()
        writer.join()

    purge.purge(database, utc_now(), at_once=2, rest=rest)
    assert between == [1, 1, 1]
    assert rows(database)["instances"] == 3


def test_a_server_with_work_under_way_or_with_allocations_is_left_alone(database: Database) -> None:
    uuids = add_request(database, [100, 100])

    def keep(tx: Transaction) -> None:
        consumer = {"uuid": uuids[0], "project_id": "p", "user_id": "u", "generation": 0, "created_at": tx.now}
        tx.execute(sa.insert(t.consumers), consumer)

    database.write(keep)
    purge.purge(database, utc_now(), rest=lambda _s: None)
    with database.read() as connection:
        assert list(connection.execute(sa.select(t.instances.c.uuid)).scalars()) == [uuids[0]]


def test_a_purge_ends_early_when_it_is_told_to(database: Database) -> None:
    add_request(database, [100] * 3)
    purge.purge(database, utc_now(), at_once=1, rest=lambda _s: True)
    assert rows(database)["instances"] == 2


def test_a_server_that_was_acted_on_very_often_is_purged_in_pieces(database: Database) -> None:
    often, living = add_request(database, [100, None])
    action = {"action": "reboot", "request_id": "req", "user_id": "u", "project_id": "p"}

    def reboot(tx: Transaction) -> None:
        rows = [{**action, "instance_uuid": uuid, "started_at": tx.now} for uuid in [*[often] * 35, living]]
        tx.execute(sa.insert(t.instance_actions), rows)

    database.write(reboot)
    pieces: list[int] = []
    removed = purge.purge(database, utc_now(), rows_at_once=10, on_progress=pieces.append, rest=lambda _s: None)
    assert removed["instance_actions"] == 35
    assert pieces == [0, 0, 0, 1]
    with database.read() as connection:
        assert list(connection.execute(sa.select(t.instance_actions.c.instance_uuid)).scalars()) == [living]


def test_every_table_that_keeps_something_about_servers_is_purged() -> None:
    """But what only living servers have, work under way and devices, and what is to outlive them: what hosts have."""
    of_the_living = {"workflows", "device_shares", "departures", "odd_guests"}
    keeping = {table.name for table in t.metadata.sorted_tables if "instance_uuid" in table.c}
    assert keeping - of_the_living == {column.table.name for column in purge._columns_of_servers()}


class TestInTheBackground:
    """The thread of a control process that purges on a schedule."""

    @pytest.fixture
    def purger(self, database: Database) -> Iterator[Callable[[int], Purger]]:
        started: list[Purger] = []

        def start(days: int) -> Purger:
            started.append(Purger(database, days, every_s=0.01))
            started[-1].start()
            return started[-1]

        yield start
        for each in started:
            each.stop()

    def test_what_is_old_enough_goes_turn_after_turn(
        self, database: Database, purger: Callable[[int], Purger], caplog: pytest.LogCaptureFixture
    ) -> None:
        young = add_request(database, [29, None])
        add_request(database, [31, 100])
        with caplog.at_level(logging.INFO):
            purger(30)
            wait_until(lambda: "Purged 2 deleted servers" in caplog.text, "the old ones are gone, and it says so")
            assert rows(database)["instances"] == len(young)
            add_request(database, [40])
            wait_until(lambda: rows(database)["instances"] == len(young), "those of a later turn, too")
            wait_until(lambda: "Purged 1 deleted servers" in caplog.text, "it says so")
        assert rows(database)["request_specs"] == 1

    def test_zero_days_purge_nothing_ever(self, database: Database, purger: Callable[[int], Purger]) -> None:
        add_request(database, [10_000])
        purger(0)
        time.sleep(0.05)
        assert rows(database)["instances"] == 1

    def test_it_ends_between_two_transactions(self, database: Database, purger: Callable[[int], Purger]) -> None:
        add_request(database, [100] * 6 * purge.SERVERS_AT_ONCE)
        thread = purger(30)
        wait_until(lambda: rows(database)["instances"] < 6 * purge.SERVERS_AT_ONCE, "the first ones are gone")
        thread.stop()
        left = rows(database)["instances"]
        assert left in {count * purge.SERVERS_AT_ONCE for count in range(1, 6)}
        time.sleep(0.03)
        assert rows(database)["instances"] == left
