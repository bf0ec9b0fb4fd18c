# SPDX-License-Identifier: Apache-2.0
"""A control process follows the enrolment of agents in the database."""

from collections.abc import Callable, Collection

import pytest

from kilonova.conductor.hosts.enrolled_agents import EnrolledAgents
from kilonova.db.database import Database
from kilonova.errors import Unavailable
from support.enrolled import enrol, revoke
from support.waiting import wait_until


class Follower:
    """The enrolments that another control process has read, and the calls that it received."""

    def __init__(self, database: Database) -> None:
        self.changes = 0
        self.revoked: list[str] = []
        self.failures = 0
        self.agents = EnrolledAgents(database, self._changed, self._revoked, every_s=0.05)

    def _changed(self) -> None:
        self.changes += 1

    def _revoked(self, agents: Collection[str]) -> None:
        if self.failures:
            self.failures -= 1
            raise Unavailable("not now")
        self.revoked += agents


def test_another_process_learns_of_changes_and_reads_nothing_else(
    database: Database, open_database: Callable[[], Database]
) -> None:
    follower = Follower(open_database())
    known = follower.agents
    enrol(database, "rack1", "node1", "node2")
    known.look()
    known.look()
    assert (known.enrolled(), follower.changes) == ({"rack1"}, 1)
    assert [known.may_speak("rack1", host) for host in ("node1", "node2", "node3")] == [True, True, False]
    enrol(database, "rack2", "node3")
    enrol(database, "rack1", removed=["node2"])
    known.look()
    assert (known.enrolled(), follower.changes) == ({"rack1", "rack2"}, 2)
    assert [known.agent_of(host) for host in ("node1", "node2", "node3")] == ["rack1", None, "rack2"]
    revoke(database, "rack1")
    enrol(database, "rack2", "node1")
    follower.failures = 1
    with pytest.raises(Unavailable):
        known.look()
    assert not known.may_speak("rack1", "node1")
    known.look()
    assert (known.enrolled(), follower.revoked) == ({"rack2"}, ["rack1"])
    assert [known.agent_of(host) for host in ("node1", "node2", "node3")] == ["rack2", None, "rack2"]


def test_changes_come_by_themselves(database: Database, open_database: Callable[[], Database]) -> None:
    follower = Follower(open_database())
    enrol(database, "rack1", "node1")
    follower.agents.start()
    try:
        assert follower.agents.may_speak("rack1", "node1")
        revoke(database, "rack1")
        wait_until(lambda: not follower.agents.enrolled(), "the revocation is noticed")
        assert not follower.agents.may_speak("rack1", "node1")
        wait_until(lambda: follower.revoked == ["rack1"], "what it began can be ended")
    finally:
        follower.agents.stop()
