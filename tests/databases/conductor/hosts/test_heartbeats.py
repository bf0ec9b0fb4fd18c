# SPDX-License-Identifier: Apache-2.0
import pytest

from kilonova.conductor.hosts.heartbeats import Heartbeats
from kilonova.db.agent_sessions import Session
from kilonova.db.database import Database
from kilonova.db.host_agents import LEASE, Process
from kilonova.errors import Forbidden
from support.heartbeats import register


def test_heartbeats_are_written_together(database: Database) -> None:
    heartbeats = Heartbeats(database, LEASE)
    for number in range(40):
        register(database, Process(f"session {number}", agent=f"agent {number}"), f"host{number}")
    before = database.newest_seq() if not database.is_sqlite else 0
    stolen = heartbeats.heard(Session("session 7", "agent 8"))
    beats = [Session(f"session {number}", f"agent {number}") for number in (*range(50), *range(10))]
    answers = [heartbeats.heard(each) for each in beats]
    assert not any(answer.done() for answer in answers)
    heartbeats.write()
    heartbeats.write()
    assert isinstance(stolen.exception(0), Forbidden)
    assert [answer.result(0) for answer in answers] == [number < 40 for number in (*range(50), *range(10))]
    if not database.is_sqlite:
        assert database.newest_seq() == before + 1
    for name in ("", "a\x00b", "x" * 37):
        with pytest.raises(Forbidden):
            heartbeats.heard(Session(name, "agent 1"))
