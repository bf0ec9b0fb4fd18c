# SPDX-License-Identifier: Apache-2.0
"""Dispatcher of notifications: a bounded queue, and one thread that builds and sends the messages.

Publishing an event never blocks, and events are sent in the order of publication. Delivery is not guaranteed, as in
Nova: while the queue is full, new events are lost, and a killed process loses its queued events (ADR 32).
"""

import contextlib
import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence

from kilonova.logs.rate_limited_log import RateLimitedLog
from kilonova.model.requester import Requester
from kilonova.notifications.events import ResourceEvent
from kilonova.notifications.message import Message
from kilonova.notifications.message_builder import MessageBuilder
from kilonova.notifications.sinks import Sink
from kilonova.records import dataclass

LOG = logging.getLogger(__name__)
#: Seconds that a stopping process waits until its queued events are sent.
CLOSING_S = 5.0
#: Seconds that a stopping process waits until connections are closed. Also the seconds that it waits for the event that
#: is being sent, if the sending has already taken longer than CLOSING_S.
_LAST_S = 1.0


def _nobody() -> None:
    """Do nothing: the default callback, for a dispatcher without metrics."""


@dataclass(frozen=True, slots=True)
class Counters:
    """Metric callbacks. ``sent``: called for each message that at least one sink accepted.

    ``lost``: called for each event that the full queue refused, and for each message that a sink could not send.
    """

    sent: Callable[[], None] = _nobody
    lost: Callable[[], None] = _nobody


class Dispatcher:
    """Sends published events in the background. Safe to use from any thread."""

    def __init__(
        self, builder: MessageBuilder, sinks: Sequence[Sink], *, queue_size: int, counters: Counters | None = None
    ) -> None:
        self._builder = builder
        self._sinks = tuple(sinks)
        self._counters = counters or Counters()
        self._queue: queue.Queue[tuple[ResourceEvent, Requester | None] | None] = queue.Queue(queue_size)
        self._complaints = RateLimitedLog(LOG)
        #: Monotonic time at which the thread started to send its current event; None while it is idle.
        self._sending_since: float | None = None
        self._is_drained = threading.Event()
        self._asked_to_end = 0
        self._thread = threading.Thread(target=self._run, name="notifications", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Number of events in the queue."""
        return self._queue.qsize()

    @property
    def is_busy(self) -> bool:
        """True if the queue is at least half full. A publisher that may block should then wait."""
        return self._queue.qsize() * 2 >= self._queue.maxsize

    @property
    def is_idle(self) -> bool:
        """True if every published event has been sent or lost."""
        return self._queue.unfinished_tasks == 0

    def tell(self, resource_event: ResourceEvent, who: Requester | None = None) -> None:
        """Queue an event. ``who``: the requester, or None if the event has none."""
        try:
            self._queue.put_nowait((resource_event, who))
        except queue.Full:
            self.lose("queue", f"the queue is full ({self._queue.maxsize} events)")

    def lose(self, kind: str, why: str) -> None:
        """Count a lost event and log it, with at most one line a minute for each ``kind``."""
        self._counters.lost()
        self._complaints.complain(kind, f"Notification lost: {why}")

    def close(self) -> None:
        """Send the queued events for at most ``CLOSING_S`` seconds, then close the sinks."""
        seconds = _LAST_S if self._is_stuck() else CLOSING_S
        if not self._ends_within(seconds):
            for sink in self._sinks:
                sink.hurry()
            self._ends_within(_LAST_S)
        if self._is_drained.is_set():
            self._thread.join(_LAST_S)
            return
        # The thread still runs, because a driver of oslo.messaging cannot be interrupted. It ends with the process.
        LOG.warning("%d notifications were not sent before shutdown", self._queue.unfinished_tasks - self._asked_to_end)

    def _is_stuck(self) -> bool:
        since = self._sending_since
        return since is not None and time.monotonic() - since > CLOSING_S

    def _ends_within(self, seconds: float) -> bool:
        """Make the thread stop after the queued events; return whether it has sent all of them within ``seconds``."""
        ends_at = time.monotonic() + seconds
        with contextlib.suppress(queue.Full):
            self._queue.put(None, timeout=seconds)
            self._asked_to_end += 1
        return self._is_drained.wait(max(0.0, ends_at - time.monotonic()))

    def _run(self) -> None:
        while (told := self._queue.get()) is not None:
            self._sending_since = time.monotonic()
            try:
                self._send(*told)
            except Exception:
                self._counters.lost()
                LOG.exception("Building a notification failed")
            self._sending_since = None
            self._queue.task_done()
        self._is_drained.set()
        for sink in self._sinks:
            try:
                sink.close()
            except Exception:
                LOG.exception("Closing a notification sink failed")

    def _send(self, resource_event: ResourceEvent, who: Requester | None) -> None:
        for message in self._builder.messages(resource_event, who):
            taken = [self._hand(message, sink) for sink in self._sinks]
            if any(taken):
                self._counters.sent()

    def _hand(self, message: Message, sink: Sink) -> bool:
        """Send a message to one sink; return whether the sink accepted it."""
        try:
            sink.send(message)
        except Exception as error:  # noqa: BLE001 - after an error of one sink, the other sinks still get the message
            self.lose(type(error).__name__, f"{type(error).__name__}: {error}")
            return False
        return True
