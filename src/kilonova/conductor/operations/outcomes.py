# SPDX-License-Identifier: Apache-2.0
"""Results of workflows for requests whose reply waits until their workflow has ended.

::

    wait ──▶ ended soon                                      the usual case: any number of threads may wait
          └─▶ a permit is free ──▶ ended, or the time is up
          └─▶ no permit is free: refused                     slow hosts must not occupy all threads of the API

A workflow that is refused or too slow goes on in the background. A workflow may end in another control process, which
has the agent of the host. So the journal is read now and then.
"""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager

from kilonova.conductor.workflow_engine.events import Phase, WorkflowEvent
from kilonova.db import workflows
from kilonova.db.database import Database
from kilonova.errors import Unavailable
from kilonova.records import dataclass

_SOON_S = 0.3
_LOOK_EVERY_S = 0.5
_ENDS = {Phase.DONE, Phase.FAILED, Phase.INTERRUPTED, Phase.STUCK}
_TOO_MANY = (
    "The operation goes on in the background, but too many requests wait for slow operations to tell its result."
)
_TOO_SLOW = "The operation has not ended in time; it goes on in the background."


@dataclass(frozen=True, slots=True)
class Awaited:
    """A workflow whose result is awaited. ``kind``: kind of the workflow."""

    kind: str
    instance_uuid: str
    request_id: str


class Outcomes:
    """Waits of threads for the end of workflows. ``within_s``: timeout in seconds; ``waiting``: number of permits."""

    def __init__(self, database: Database, within_s: float, waiting: int) -> None:
        self._database = database
        self._within_s = within_s
        self._permits = threading.BoundedSemaphore(waiting)
        self._lock = threading.Lock()
        self._awaited: dict[Awaited, Future[WorkflowEvent | None]] = {}

    def tell(self, event: WorkflowEvent) -> None:
        """Receive an event of the workflow engine."""
        if event.phase in _ENDS and self._awaited:
            self._end(Awaited(event.kind, event.instance_uuid, event.request_id), event)

    @contextmanager
    def expecting(self, awaited: Awaited) -> Iterator[Future[WorkflowEvent | None]]:
        """Await a workflow that is started within the block."""
        outcome: Future[WorkflowEvent | None] = Future()
        with self._lock:
            self._awaited[awaited] = outcome
        try:
            yield outcome
        finally:
            with self._lock:
                del self._awaited[awaited]

    def wait(self, awaited: Awaited, outcome: "Future[WorkflowEvent | None]") -> WorkflowEvent | None:
        """Return the last event of an awaited workflow, or None if another process has ended it.

        Raises: Unavailable after the timeout, or if no permit is free.
        """
        until = time.monotonic() + self._within_s
        try:
            return outcome.result(min(_SOON_S, self._within_s))
        except TimeoutError:
            pass
        if not self._permits.acquire(blocking=False):
            raise Unavailable(_TOO_MANY)
        try:
            while (left := until - time.monotonic()) > 0:
                try:
                    return outcome.result(min(_LOOK_EVERY_S, left))
                except TimeoutError:
                    if not self._is_present(awaited):
                        return outcome.result(0) if outcome.done() else None
        finally:
            self._permits.release()
        raise Unavailable(_TOO_SLOW)

    def _end(self, awaited: Awaited, event: WorkflowEvent) -> None:
        with self._lock:
            outcome = self._awaited.get(awaited)
            if outcome is not None and not outcome.done():
                outcome.set_result(event)

    def _is_present(self, awaited: Awaited) -> bool:
        with self._database.read() as connection:
            rows = workflows.of_instance(connection, awaited.instance_uuid)
        return any((row.kind, row.request_id) == (awaited.kind, awaited.request_id) for row in rows)
