# SPDX-License-Identifier: Apache-2.0
"""The change feed of a control process: positions, shared batches, heartbeats and limits."""

import threading
from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from kilonova.change_feed import feed as module
from kilonova.change_feed.feed import ChangeFeed, Subscription, TooManyClients
from kilonova.db.change_log.changes import LoggedProcess
from kilonova.db.database import Database
from kilonova.errors import Unavailable
from support.waiting import wait_until

pytestmark = pytest.mark.parametrize("kind", ["sqlite"], indirect=True)


@pytest.fixture
def feed(database: Database) -> Iterator[ChangeFeed]:
    made = ChangeFeed(database, most=3, most_of_user=2, most_waiting=1)
    made.start()
    yield made
    made.stop()


def commit(database: Database, name: str) -> None:
    database.write(lambda tx: tx.log("process", name, LoggedProcess(None)))


class Reader:
    """A client that takes what it gets, until it is told to stop."""

    def __init__(self, feed: ChangeFeed, user_id: str = "me", after: int | None = None, seconds: float = 60.0) -> None:
        self.news = threading.Event()
        self.client: Subscription = feed.subscribe(user_id, after, seconds, self.news.set)
        self.heartbeats = 0

    def names(self, count: int) -> list[str]:
        found: list[str] = []
        while len(found) < count:
            assert self.news.wait(20)
            self.news.clear()
            batch = self.client.take()
            if batch is not None:
                self.heartbeats += not batch.events
                found += [each["id"] for _, text in batch.events for each in orjson.loads(text)["changes"]]
        return found


def test_clients_get_all_commits_after_their_position(database: Database, feed: ChangeFeed) -> None:
    first = Reader(feed)
    commit(database, "a")
    commit(database, "b")
    assert first.names(2) == ["a", "b"]
    second = Reader(feed, after=first.client.after - 1)
    commit(database, "c")
    assert first.names(1) == ["c"]
    assert second.names(2) == ["b", "c"]
    assert first.heartbeats <= 1


def test_commits_of_another_process_arrive_within_a_second(database: Database, feed: ChangeFeed) -> None:
    reader = Reader(feed)
    other = Database(database.url.render_as_string(hide_password=False))
    try:
        commit(other, "elsewhere")
        assert reader.names(1) == ["elsewhere"]
    finally:
        other.close()


def test_a_client_that_takes_nothing_holds_one_batch_and_delays_no_other(database: Database, feed: ChangeFeed) -> None:
    slow, quick = Reader(feed), Reader(feed)
    for number in range(20):
        commit(database, str(number))
        assert quick.names(1) == [str(number)]
    batch = slow.client.take()
    assert batch is not None
    assert len(batch.events) <= 1
    assert slow.names(20 - len(batch.events))[-1] == "19"


def test_a_quiet_client_gets_heartbeats(feed: ChangeFeed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HEARTBEAT_S", 0.1)
    reader = Reader(feed)

    def beats() -> int:
        batch = reader.client.take()
        reader.heartbeats += batch is not None
        return reader.heartbeats

    wait_until(lambda: beats() >= 3, "three heartbeats")


def test_a_subscription_ends_at_its_time_and_its_client_is_woken(feed: ChangeFeed) -> None:
    reader = Reader(feed, seconds=0.3)
    assert not reader.client.is_over
    wait_until(lambda: reader.client.is_over, "the end")
    reader.news.clear()
    assert reader.news.wait(10)


def test_clients_are_limited_for_each_user_and_in_total(feed: ChangeFeed) -> None:
    first, _second = Reader(feed), Reader(feed)
    with pytest.raises(TooManyClients, match="You have 2"):
        Reader(feed)
    Reader(feed, "other")
    with pytest.raises(TooManyClients, match="has 3"):
        Reader(feed, "another")
    first.client.close()
    first.client.close()
    Reader(feed, "another")
    assert feed.clients == 3


def test_threads_that_wait_are_limited(feed: ChangeFeed) -> None:
    with feed.waiting(), pytest.raises(TooManyClients, match="wait for changes"), feed.waiting():
        pass
    with feed.waiting():
        pass


def test_the_end_of_the_process_ends_all_subscriptions(database: Database) -> None:
    feed = ChangeFeed(database, most=3, most_of_user=3)
    reader = Reader(feed)
    feed.stop()
    assert reader.client.is_over
    assert reader.news.is_set()
    with pytest.raises(Unavailable):
        Reader(feed)


def test_while_the_database_is_away_clients_get_heartbeats_and_then_the_commits(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "HEARTBEAT_S", 0.1)
    away = threading.Event()
    real = module.read_batch

    def read(*arguments: Any) -> Any:
        if away.is_set():
            raise Unavailable("injected")
        return real(*arguments)

    monkeypatch.setattr(module, "read_batch", read)
    feed = ChangeFeed(database, most=1, most_of_user=1)
    try:
        reader = Reader(feed)
        away.set()
        commit(database, "a")
        wait_until(lambda: reader.client.take() is not None, "a heartbeat")
        away.clear()
        assert reader.names(1) == ["a"]
    finally:
        feed.stop()
