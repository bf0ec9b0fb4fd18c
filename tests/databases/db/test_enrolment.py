# SPDX-License-Identifier: Apache-2.0
"""Agents are enrolled for hosts and revoked."""

from collections.abc import Collection

import pytest

from kilonova.db import enrolment, host_agents
from kilonova.db.core.transaction import Transaction
from kilonova.db.database import Database
from kilonova.db.host_agents import Process
from kilonova.errors import Conflict, Forbidden, InvalidRequest, KilonovaError, NotFound
from support.enrolled import enrol, revoke


def hosts_of_all(database: Database) -> dict[str, tuple[tuple[str, ...], bool]]:
    """Return agent → its hosts, and whether it may speak."""
    with database.read() as connection:
        return {each.name: (each.hosts, each.revoked_at is None) for each in enrolment.list_all(connection)}


def test_an_agent_is_enrolled_again_for_more_hosts_or_for_fewer(database: Database) -> None:
    assert enrol(database, "rack1", "node2", "node1").hosts == ("node1", "node2")
    assert enrol(database, "rack1").hosts == ("node1", "node2")
    assert enrol(database, "rack1", "node3", "node1").hosts == ("node1", "node2", "node3")
    assert enrol(database, "rack1", removed=["node2"]).hosts == ("node1", "node3")
    enrol(database, "rack2", "node2")
    assert hosts_of_all(database) == {"rack1": (("node1", "node3"), True), "rack2": (("node2",), True)}


def test_the_session_of_an_agent_ends_that_has_a_host_which_is_its_no_more(database: Database) -> None:
    """Its heartbeats do not name its hosts, so nothing else would end it."""

    def begin(tx: Transaction) -> None:
        for agent, hosts in (("rack1", ("node1", "node2")), ("rack2", ("node3",))):
            enrolment.enrol(tx, agent, hosts)
            host_agents.register(tx, Process(f"session of {agent}", agent=agent), hosts, host_agents.LEASE)

    database.write(begin)
    enrol(database, "rack2", "node4")
    enrol(database, "rack1", removed=["node2"])
    with database.read() as connection:
        assert host_agents.living(connection, database.clock.now()) == {"session of rack2"}


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    ("hosts", "removed", "error", "message"),
    [
        (["node9", "node2"], [], Conflict, "Host node2 has agent rack2."),
        (["node2", "node3", "node4"], [], Conflict, "Host node2 has agent rack2, and 2 more hosts have other agents."),
        ([], ["node2", "node7"], InvalidRequest, "Agent rack1 has no host node2, node7."),
        (["node1"], ["node1"], InvalidRequest, "Host node1 cannot be both added and removed."),
        ([], ["node1"], InvalidRequest, "Agent rack1 needs at least one host."),
        (["no de"], [], InvalidRequest, "Host name 'no de' is not valid"),
        (["n" * 256], [], InvalidRequest, "Host name 'nnn"),
        ([""], [], InvalidRequest, "Host name '' is not valid"),
    ],
)
def test_what_is_refused_changes_nothing(
    database: Database, hosts: list[str], removed: list[str], error: type[KilonovaError], message: str
) -> None:
    enrol(database, "rack1", "node1")
    enrol(database, "rack2", "node2", "node3", "node4")
    before = hosts_of_all(database)
    with pytest.raises(error) as caught:
        enrol(database, "rack1", *hosts, removed=removed)
    assert caught.value.message.startswith(message)
    assert hosts_of_all(database) == before


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_nobody_is_enrolled_without_hosts(database: Database) -> None:
    with pytest.raises(InvalidRequest):
        enrol(database, "rack1")
    assert hosts_of_all(database) == {}
    with pytest.raises(NotFound):
        revoke(database, "rack1")


def test_a_revoked_agent_keeps_its_hosts_until_another_one_gets_them(database: Database) -> None:
    enrol(database, "rack1", "node1", "node2")
    first = revoke(database, "rack1")
    assert first.revoked_at is not None
    assert revoke(database, "rack1") == first
    enrol(database, "rack2", "node2")
    assert hosts_of_all(database) == {"rack1": (("node1",), False), "rack2": (("node2",), True)}
    enrol(database, "rack1")
    assert hosts_of_all(database)["rack1"] == (("node1",), True)


def test_the_database_tells_who_may_speak_now(database: Database) -> None:
    many = [f"host{number}" for number in range(1200)]
    enrol(database, "rack1", *many)
    enrol(database, "rack2", "node2")

    def is_enrolled(name: str, hosts: Collection[str], hypervisors: Collection[str] = ()) -> bool:
        try:
            database.write(lambda tx: enrolment.require_enrolled(tx, name, hosts, hypervisors))
        except Forbidden:
            return False
        return True

    assert is_enrolled("rack1", many)
    assert is_enrolled("rack1", [])
    assert is_enrolled("rack1", many, [f"{each}.example.org" for each in many])
    assert not is_enrolled("rack1", many, [*many, "node2"])
    assert not is_enrolled("rack1", ["node2"])
    assert not is_enrolled("rack1", [*many, "node2"])
    assert not is_enrolled("rack1", ["unknown"])
    assert not is_enrolled("nobody", [])
    revoke(database, "rack2")
    assert not is_enrolled("rack2", ["node2"])
