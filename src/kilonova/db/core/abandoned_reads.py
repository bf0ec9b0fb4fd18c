# SPDX-License-Identifier: Apache-2.0
"""Cancellation of database reads whose API client has disconnected or whose deadline has passed.

A thread that waits for a database server cannot check its own deadline, so one watcher thread checks the deadlines of
all reads. SQLite needs no watcher: it runs in the reading thread, and its progress handler checks the deadline.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field
from typing import Any

from sqlalchemy.engine import Connection, Engine

from kilonova import deadline
from kilonova.deadline import Deadline
from kilonova.periodic import PeriodicThread
from kilonova.records import dataclass

_LOOK_EVERY_S = 0.25
_CANCEL_S = 5.0


@dataclass(slots=True, eq=False)
class _Read:
    """A running read.

    ``lock``: held while the read is cancelled, so that the read cannot return its connection to the pool meanwhile.
    """

    deadline: Deadline
    cancel: Callable[[], None]
    is_cancelled: bool = False
    has_ended: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)


class AbandonedReads:
    """Watcher of the reads on a database server.

    ``orders``: a separate engine for the KILL QUERY statements, because the readers' connection pool may be exhausted.
    """

    def __init__(self, orders: Engine) -> None:
        self._orders = orders
        self._reads: set[_Read] = set()
        self._gate = threading.Lock()
        self._thread: PeriodicThread | None = None

    @contextmanager
    def watched(self, connection: Connection) -> Iterator[None]:
        """Cancel the statement that runs on ``connection`` as soon as the deadline of this thread has passed.

        Raises: ClientGone or DeadlineExceeded, if the cancellation came too late to make the statement fail.
        """
        limit = deadline.current()
        if limit is None or limit is deadline.NEVER:
            yield
            return
        read = _Read(limit, self._canceller(connection.connection.driver_connection))
        with self._gate:
            self._reads.add(read)
            if self._thread is None:
                self._thread = PeriodicThread(
                    "db-watch",
                    self._look,
                    _LOOK_EVERY_S,
                    description="Cancel database reads whose client has gone or whose deadline is over.",
                    complaint="Abandoned database reads could not be cancelled",
                )
                self._thread.start()
        try:
            yield
        finally:
            with self._gate:
                self._reads.discard(read)
            with read.lock:
                read.has_ended = True
            if read.is_cancelled:
                connection.invalidate()  # a late cancellation would hit the next read on this connection
        if read.is_cancelled:
            limit.check()

    @property
    def periodic_threads(self) -> Sequence[PeriodicThread]:
        """The watcher thread; empty before the first read with a deadline."""
        thread = self._thread
        return () if thread is None else (thread,)

    def stop(self) -> None:
        with self._gate:
            thread, self._thread = self._thread, None
        if thread is not None:
            thread.stop()

    def _look(self) -> None:
        with self._gate:
            reads = tuple(self._reads)
        for read in reads:
            if read.deadline.is_over():
                with read.lock:
                    if not read.has_ended:
                        read.is_cancelled = True
                        read.cancel()

    def _canceller(self, connection: Any) -> Callable[[], None]:
        if self._orders.dialect.name == "postgresql":
            return lambda: connection.cancel_safe(timeout=_CANCEL_S)

        def kill() -> None:
            with self._orders.connect() as other:
                other.exec_driver_sql(f"KILL QUERY {connection.thread_id()}")

        return kill
