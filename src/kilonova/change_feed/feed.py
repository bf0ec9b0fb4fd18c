# SPDX-License-Identifier: Apache-2.0
"""The change feed of one control process: one thread reads the change log for all clients of the process.

A client has a position in the log and at most one batch that it has not taken. The thread reads the next batch for
clients that have taken theirs, once for all clients at the same position. So a slow client costs one batch of memory,
and no client makes another one wait.
"""

import logging
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import field

from kilonova.change_feed.events import Batch
from kilonova.change_feed.log_reader import newest, read_batch
from kilonova.db.database import Database
from kilonova.errors import Unavailable
from kilonova.records import dataclass

LOG = logging.getLogger(__name__)
#: Interval of looks for commits of other control processes, while there are clients.
_LOOK_EVERY_S = 0.5
#: Minimum pause between two reads of the log.
_PAUSE_S = 0.05
HEARTBEAT_S = 15.0


class TooManyClients(Exception):
    """The limit of clients, of the user or of the control process, is reached. The message is for the client."""


@dataclass(eq=False, slots=True)
class Subscription:
    """One client of the feed. ``after``: its position. ``wake``: called when :meth:`take` has something new.

    ``ends_at``: end of the subscription, by the monotonic clock.
    """

    feed: "ChangeFeed"
    user_id: str
    after: int
    ends_at: float
    wake: Callable[[], None]
    heard_at: float
    is_closed: bool = False
    _batch: Batch | None = field(default=None)

    def take(self) -> Batch | None:
        """Return the next batch; None if there is none yet."""
        batch, self._batch = self._batch, None
        if batch is not None:
            self.feed.look()
        return batch

    @property
    def is_over(self) -> bool:
        """Whether the subscription has ended, so that nothing new will come."""
        return self.is_closed or self.feed.clock() >= self.ends_at

    @property
    def is_hungry(self) -> bool:
        """Whether the client has taken its last batch."""
        return self._batch is None

    def offer(self, batch: Batch, now: float) -> None:
        """Give the client a batch. Only the feed's thread calls this method."""
        self.after, self.heard_at, self._batch = batch.reached, now, batch
        self.wake()

    def close(self) -> None:
        """End the subscription. Idempotent."""
        self.feed.leave(self)


class ChangeFeed:
    """Part of a control process. ``most``, ``most_of_user``: limits of its clients; ``most_waiting``: of its threads.

    The thread runs while there are clients.
    """

    name = "change feed"

    def __init__(
        self,
        database: Database,
        *,
        most: int,
        most_of_user: int,
        most_waiting: int = 4,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.clock = clock
        self._database = database
        self._most = most
        self._most_of_user = most_of_user
        self._places = threading.BoundedSemaphore(most_waiting)
        self._lock = threading.Lock()
        self._clients: set[Subscription] = set()
        self._of_user: Counter[str] = Counter()
        self._news = threading.Event()
        self._is_stopping = False
        self._thread: threading.Thread | None = None
        database.on_commit(lambda _commit: self.look())

    @property
    def clients(self) -> int:
        """The number of clients."""
        return len(self._clients)

    def start(self) -> None:
        """Do nothing: the thread starts with the first client."""

    def stop(self) -> None:
        """End all subscriptions, and the thread."""
        self._is_stopping = True
        with self._lock:
            clients, thread = tuple(self._clients), self._thread
        for client in clients:
            client.close()
            client.wake()
        self._news.set()
        if thread is not None:
            thread.join()

    def look(self) -> None:
        """Look for new commits now, if there are clients."""
        if self._clients:
            self._news.set()

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Context manager for a thread that waits for a batch. Raises: TooManyClients."""
        if not self._places.acquire(blocking=False):
            raise TooManyClients("Too many requests wait for changes; use the stream of events.")
        try:
            yield
        finally:
            self._places.release()

    def subscribe(self, user_id: str, after: int | None, seconds: float, wake: Callable[[], None]) -> Subscription:
        """Add a client for at most ``seconds``. ``after``: its position; None: the newest commit.

        Raises: TooManyClients, Unavailable.
        """
        if after is None:
            with self._database.read() as connection:
                after = newest(connection)
        now = self.clock()
        client = Subscription(self, user_id, after, now + seconds, wake, float("-inf"))
        with self._lock:
            if self._is_stopping:
                raise Unavailable("The service is stopping.")
            if len(self._clients) >= self._most:
                raise TooManyClients(f"The change feed has {self._most} clients already, which is the limit.")
            if self._of_user[user_id] >= self._most_of_user:
                raise TooManyClients(f"You have {self._most_of_user} clients of the change feed, which is the limit.")
            self._of_user[user_id] += 1
            self._clients.add(client)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="change-feed", daemon=True)
                self._thread.start()
        self._news.set()
        return client

    def leave(self, client: Subscription) -> None:
        """Remove a client. Idempotent."""
        with self._lock:
            if client.is_closed:
                return
            client.is_closed = True
            self._clients.discard(client)
            self._of_user[client.user_id] -= 1
            if not self._of_user[client.user_id]:
                del self._of_user[client.user_id]

    def _run(self) -> None:
        told = None
        while not self._is_stopping:
            self._news.wait(_LOOK_EVERY_S if self._clients else None)
            self._news.clear()
            try:
                self._feed_all()
                told = None
            except Unavailable as error:
                if error.message != told:
                    LOG.warning("The change feed waits for the database: %s", error.message)
                told = error.message
            except Exception:
                LOG.exception("The change feed could not read the change log")
            time.sleep(_PAUSE_S)

    def _feed_all(self) -> None:
        """Give each client that has taken its last batch the next one, or a heartbeat if one is due."""
        with self._lock:
            clients = tuple(self._clients)
        now = self.clock()
        by_position: dict[int, list[Subscription]] = defaultdict(list)
        for client in clients:
            if client.is_over:
                client.wake()
            elif client.is_hungry:
                by_position[client.after].append(client)
        if not by_position:
            return
        try:
            with self._database.read() as connection:
                batches = {after: read_batch(connection, after) for after in by_position}
        except Unavailable:
            self._beat(by_position, now)
            raise
        for after, batch in batches.items():
            if batch.events or batch.is_reload:
                for client in by_position.pop(after):
                    client.offer(batch, now)
            elif batch.reached != after:  # commits without changes, as every heartbeat of a process is one
                for client in by_position[after]:
                    client.after = batch.reached
        self._beat(by_position, now)

    def _beat(self, by_position: dict[int, list[Subscription]], now: float) -> None:
        for clients in by_position.values():
            heartbeat = Batch(clients[0].after)
            for client in clients:
                if now - client.heard_at >= HEARTBEAT_S:
                    client.offer(heartbeat, now)
