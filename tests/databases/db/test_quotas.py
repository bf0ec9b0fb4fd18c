# SPDX-License-Identifier: Apache-2.0
"""Quotas: exact between processes, counted for existing servers at the upgrade, guarded against other writers."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.migration import MigrationContext
from alembic.operations import Operations
from alembic.script import ScriptDirectory

from kilonova.db import instances, quotas, schema
from kilonova.db.audits import audit
from kilonova.db.core import tables as t
from kilonova.db.core.transaction import Transaction
from kilonova.db.database import Database
from kilonova.db.quotas import EVERYBODY
from kilonova.errors import ConcurrentUpdate, OverQuota
from kilonova.identifiers import new_uuid
from kilonova.model.flavor import Flavor
from kilonova.model.instance import Instance, VmState
from kilonova.model.quota import NO_LIMITS, NestedLimits, QuotaRequest, QuotaTree, Usage
from support.control import start_control
from support.waiting import wait_until_idle

BIG = Flavor("1", "m1", vcpus=3, memory_mib=1000, root_gib=1)
EACH = Usage(1, 3, 1000)


def server(project: str = "p", user: str = "u", vm_state: VmState = VmState.ACTIVE) -> Instance:
    return Instance(0, new_uuid(), "vm", project, user, vm_state, BIG)


def request(project: str = "p", user: str = "u", at_least: int = 1, at_most: int = 1) -> QuotaRequest:
    return QuotaRequest(project, user, EACH, at_least, at_most)


def take(database: Database, *requests: QuotaRequest, **limits: int) -> list[int | str]:
    """Ask for servers in one transaction; a refusal is returned as what it names."""
    granted = database.write(lambda tx: quotas.take(tx, requests, {**NO_LIMITS, **limits}))
    return [str(each).split(":")[0].split()[-1] if isinstance(each, OverQuota) else each for each in granted]


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_two_processes_together_accept_as_many_as_the_limit_says(database_url: str, tmp_path: Path) -> None:
    controls = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        hosts = f"images: [{{name: cirros}}]\nhosts: [{{name: {name}, vcpus: 16, memory_mib: 32768}}]\n"
        controls.append(start_control(tmp_path / name, scenario=hosts, database_url=database_url))
    controls[0].add_flavor()
    limit = {"quota_set": {"instances": 50}}
    assert controls[1].admin.put("/os-quota-sets/wonder", limit).status == 200
    with ThreadPoolExecutor(32) as pool:
        answers = list(pool.map(lambda number: controls[number % 2].ask().status, range(200)))
    assert Counter(answers) == {202: 50, 403: 150}
    database = controls[0].process.database
    wait_until_idle(database)
    with database.read() as connection:
        states = connection.execute(sa.select(t.instances.c.vm_state)).scalars()
        assert Counter(states) == {"active": 50}
        assert list(audit.wrong_quota_usages(connection)) == []
        assert quotas.usage_of(connection, "wonder") == Usage(50, 50, 25600)
    for control in controls:
        control.process.close()


def test_requests_of_one_transaction_are_granted_in_their_order(database: Database) -> None:
    asked = [request(at_most=2), request(at_least=3, at_most=3), request("other", at_most=9), request(at_most=4)]
    assert take(database, *asked, instances=4) == [2, "instances", 4, 2]
    assert take(database, request(), request("other"), request("new"), cores=15) == [1, 1, 1]
    assert take(database, request(), request("new", at_most=7), cores=18, ram=4000) == ["ram", 3]
    with database.read() as connection:
        assert quotas.stored(connection) == {("p", ""): EACH * 5, ("other", ""): EACH * 5, ("new", ""): EACH * 4}


def test_users_with_limits_of_their_own_are_counted_beside_their_project(database: Database) -> None:
    assert take(database, request(), request(user="v")) == [1, 1]
    servers = [server(), server(user="v")]
    database.write(lambda tx: instances.insert(tx, [(each, None) for each in servers]))
    database.write(lambda tx: quotas.set_limits(tx, "p", "u", {"cores": 7}))
    assert take(database, request(at_most=5), request(), request(user="v"), instances=4) == [1, "cores", 1]
    with database.read() as connection:
        assert quotas.stored(connection) == {("p", EVERYBODY): EACH * 4, ("p", "u"): EACH * 2}
    database.write(lambda tx: instances.mark_deleted(tx, servers[0].uuid))
    database.write(lambda tx: instances.mark_deleted(tx, servers[1].uuid))
    with database.read() as connection:
        assert quotas.stored(connection) == {("p", EVERYBODY): EACH * 2, ("p", "u"): EACH}
    database.write(lambda tx: quotas.delete_limits(tx, "p"))
    with database.read() as connection:
        assert quotas.stored(connection) == {("p", EVERYBODY): EACH * 2}


def test_projects_of_a_tree_are_limited_together(database: Database) -> None:
    projects = frozenset(f"p{number}" for number in range(1200))
    nested = NestedLimits({**NO_LIMITS, "instances": 4}, QuotaTree("domain d", projects, {**NO_LIMITS, "cores": 18}))
    asked = [replace(request(f"p{number}", at_most=3), limits=nested) for number in (0, 1199, 0, 7)]
    other = request("elsewhere", at_most=9)
    assert take(database, *asked[:2], other) == [3, 3, 9], "6 servers of 3 cores"
    assert take(database, *asked[2:]) == ["cores", "cores"]
    database.write(lambda tx: quotas.give_back(tx, "p1199", "u", EACH * 2))
    assert take(database, asked[2], asked[3]) == [1, 1], "p0 has its fourth server, and one remains for p7"
    with database.read() as connection:
        assert quotas.usage_of_projects(connection, projects) == EACH * 6
    message = database.write(lambda tx: quotas.take(tx, asked[:1], NO_LIMITS))[0]
    assert str(message) == "Quota exceeded for instances: Requested 1, but already used 4 of 4 instances"
    message = database.write(lambda tx: quotas.take(tx, asked[1:2], NO_LIMITS))[0]
    assert str(message) == "Quota exceeded for cores: Requested 3, but already used 18 of 18 cores of domain d"


def test_who_writes_beside_the_writer_cannot_be_overrun(database: Database) -> None:
    """The guard is in the UPDATE: even a count that changes between reading and writing is not passed."""
    take(database, request())

    def overtaken(tx: Transaction) -> None:
        ledger = quotas._Ledger(tx.connection, {**NO_LIMITS, "instances": 3})
        ledger.read([request()])
        assert ledger.grant(request(at_most=2)) == 2
        tx.execute(sa.update(t.quotas).values(instances=2))
        ledger.write(tx)

    with pytest.raises(ConcurrentUpdate):
        database.write(overtaken)
    with database.read() as connection:
        assert quotas.usage_of(connection, "p") == EACH


def test_audit_counts_anew(database: Database) -> None:
    gone, soft = server("q"), server("q", vm_state=VmState.SOFT_DELETED)
    offloaded = server("q", vm_state=VmState.SHELVED_OFFLOADED)

    def store(tx: Transaction) -> None:
        instances.insert(tx, [(each, None) for each in (server(), server(user="v"), gone, soft, offloaded)])
        instances.mark_deleted(tx, gone.uuid)
        quotas.set_limits(tx, "p", "v", {"ram": 9})
        quotas.set_limits(tx, "empty", EVERYBODY, {"ram": 9})
        tx.execute(sa.update(t.quotas).values(cores=t.quotas.c.cores + 5))

    database.write(store)
    with database.read() as connection:
        findings = list(audit.wrong_quota_usages(connection))
    assert {finding.where for finding in findings} == {"project p", "project p, user v", "project q", "project empty"}
    for finding in findings:
        database.write(finding.repair)
    with database.read() as connection:
        assert list(audit.wrong_quota_usages(connection)) == []
        right = {("p", ""): EACH * 2, ("p", "v"): EACH, ("q", ""): EACH, ("empty", ""): Usage()}
        assert quotas.stored(connection) == right
        assert quotas.own_limits(connection, "p", "v") == {"ram": 9}


def test_the_upgrade_counts_the_servers_that_are_there(database: Database) -> None:
    small = replace(server("q"), flavor=replace(BIG, vcpus=1, memory_mib=1))
    deleted = server()

    def store(tx: Transaction) -> None:
        soft = server(vm_state=VmState.SOFT_DELETED)
        instances.insert(tx, [(each, None) for each in (server(), server(user="v"), small, deleted, soft)])
        instances.mark_deleted(tx, deleted.uuid)

    database.write(store)
    migration = ScriptDirectory(str(schema.MIGRATIONS)).get_revision("0007").module
    with database.engine.begin() as connection, Operations.context(MigrationContext.configure(connection)):
        migration._count_servers(t.quotas)
    with database.read() as connection:
        assert quotas.stored(connection) == {("p", EVERYBODY): EACH * 2, ("q", EVERYBODY): Usage(1, 1, 1)}
        assert list(audit.wrong_quota_usages(connection)) == []


def test_soft_deleted_servers_are_not_given_back_twice(database: Database) -> None:
    take(database, request(at_most=2))
    soft = server(vm_state=VmState.SOFT_DELETED)
    database.write(lambda tx: instances.insert(tx, [(server(), None), (server(), None), (soft, None)]))
    database.write(lambda tx: instances.mark_deleted(tx, soft.uuid))
    with database.read() as connection:
        assert quotas.usage_of(connection, "p") == EACH * 2
        assert list(audit.wrong_quota_usages(connection)) == []
