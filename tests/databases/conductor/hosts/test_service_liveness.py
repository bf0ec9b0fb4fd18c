# SPDX-License-Identifier: Apache-2.0
"""Hosts count as down once their process has been silent for the down time, while another one listens."""

import pytest

from kilonova.db.change_log.changes import Commit
from kilonova.db.database import Database
from kilonova.db.host_agents import Process
from support.heartbeats import DOWN_TIME, SESSION, Listener, beat, register, service_of
from support.processes import pass_time


@pytest.fixture
def commits(database: Database) -> list[Commit]:
    """The commits that mirrors are notified of."""
    told: list[Commit] = []
    database.on_commit(lambda commit: told.append(commit) if commit.changes else None)
    return told


def test_silence_is_one_change_and_so_is_coming_back(database: Database, commits: list[Commit]) -> None:
    register(database, SESSION, *(f"host{number}" for number in range(1200)))
    register(database, Process("listener"), "other")
    listener = Listener(database)
    del commits[:]
    for _ in range(3):
        listener.wait(DOWN_TIME * 0.9)
        beat(database, "session 1")
    assert commits == []
    assert service_of(database, "host7").is_up
    listener.wait(DOWN_TIME * 1.1)
    (down,) = (change for commit in commits for change in commit.changes if change.kind != "service")
    assert (down.kind, down.key) == ("process", "session 1")
    assert down.value.silent_since is not None
    assert not service_of(database, "host1199").is_up
    assert service_of(database, "other").is_up, "who listens is alive"
    del commits[:]
    assert beat(database, "session 1") == {"session 1"}, "its lease is longer than that"
    (up,) = (change for commit in commits for change in commit.changes if change.kind != "service")
    assert up.value.silent_since is None
    assert service_of(database, "host1199").is_up


def test_silence_counts_only_while_a_control_process_listens(database: Database) -> None:
    """Else all hosts would be down at once after an outage of the broker, the database or all control processes."""
    register(database, SESSION, "a")
    register(database, Process("listener"), "other")

    def is_up() -> bool:
        return service_of(database, "a").is_up

    pass_time(database, DOWN_TIME * 20)
    listener = Listener(database)
    assert is_up(), "it has just begun to listen"
    listener.hears = False
    listener.wait(DOWN_TIME * 5)
    listener.hears = True
    listener.wait(DOWN_TIME * 5, stopped=True)
    listener.wait(DOWN_TIME * 0.5)
    listener.hears = False
    listener.wait(DOWN_TIME * 5)
    listener.hears = True
    listener.wait(DOWN_TIME * 0.4)
    assert is_up(), "the listener has heard for only nine tenths of the down time"
    listener.wait(DOWN_TIME * 0.3)
    assert not is_up()
