# SPDX-License-Identifier: Apache-2.0
"""From those who tell to those who listen: a bounded queue, and one thread that words and sends what is in it.

Whoever tells never waits. What is told is sent in the order in which it was told. A queue that is full, and a process
that dies, lose what they have: nobody is promised a notification, as in Nova (ADR 32).
"""

import contextlib
import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kilonova.logs.rate_limited_log import RateLimitedLog
from kilonova.model.requester import Requester
from kilonova.notifications.events import Happening
from kilonova.notifications.message import Message
from kilonova.notifications.message_builder import MessageBuilder
from kilonova.notifications.sinks import Sink

LOG = logging.getLogger(__name__)
#: How long a process that ends waits for what it has still to send.
CLOSING_S = 5.0
#: How long it waits for a broker that has not taken a message for so long already, and for connections to be closed.
_LAST_S = 1.0


def _nobody() -> None:
    """Count nothing."""


@dataclass(frozen=True, slots=True)
class Counters:
    """Told of each message that somebody took, and of each that was lost for somebody."""

    sent: Callable[[], None] = _nobody
    lost: Callable[[], None] = _nobody


class Dispatcher:
    """Sends what it is told, in the background. Safe to use from any thread."""

    def __init__(
        self, wording: MessageBuilder, sinks: Sequence[Sink], *, queue_size: int, counters: Counters | None = None
    ) -> None:
        self._wording = wording
        self._sinks = tuple(sinks)
        self._counters = counters or Counters()
        self._queue: queue.Queue[tuple[Happening, Requester | None] | None] = queue.Queue(queue_size)
        self._complaints = RateLimitedLog(LOG)
        #: Since when the present message is being sent.
        self._sending_since: float | None = None
        self._is_drained = threading.Event()
        self._asked_to_end = 0
        self._thread = threading.Thread(target=self._run, name="notifications", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """How many happenings have not been sent yet."""
        return self._queue.qsize()

    @property
    def is_busy(self) -> bool:
        """Whether so much waits that whoever can tell later should."""
        return self._queue.qsize() * 2 >= self._queue.maxsize

    @property
    def is_idle(self) -> bool:
        """Whether everything that was told has been sent or lost."""
        return self._queue.unfinished_tasks == 0

    def tell(self, happening: Happening, who: Requester | None = None) -> None:
        """Have something sent. ``who`` asked for it; None for what nobody did."""
        try:
            self._queue.put_nowait((happening, who))
        except queue.Full:
            self.lose("queue", f"{self._queue.maxsize} of them wait already")

    def lose(self, kind: str, why: str) -> None:
        """Count a happening that nobody will be told of; log the first of a kind, and then one line a minute."""
        self._counters.lost()
        self._complaints.complain(kind, f"A notification is lost: {why}")

    def close(self) -> None:
        """Send what waits, as far as that goes within some seconds, and let go of the broker."""
        seconds = _LAST_S if self._is_stuck() else CLOSING_S
        if not self._ends_within(seconds):
            for sink in self._sinks:
                sink.hurry()
            self._ends_within(_LAST_S)
        if self._is_drained.is_set():
            self._thread.join(_LAST_S)
            return
        # A driver of oslo.messaging cannot be interrupted; the thread goes with the process.
        LOG.warning("%d notifications were not sent before the end", self._queue.unfinished_tasks - self._asked_to_end)

    def _is_stuck(self) -> bool:
        since = self._sending_since
        return since is not None and time.monotonic() - since > CLOSING_S

    def _ends_within(self, seconds: float) -> bool:
        """Ask the thread to end after what waits. Tells whether everything was sent or lost by then."""
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
                LOG.exception("A notification could not be made")
            self._sending_since = None
            self._queue.task_done()
        self._is_drained.set()
        for sink in self._sinks:
            try:
                sink.close()
            except Exception:
                LOG.exception("Notifications could not be closed")

    def _send(self, happening: Happening, who: Requester | None) -> None:
        for message in self._wording.messages(happening, who):
            taken = [self._hand(message, sink) for sink in self._sinks]
            if any(taken):
                self._counters.sent()

    def _hand(self, message: Message, sink: Sink) -> bool:
        """Give a message to one place. Tells whether that took it."""
        try:
            sink.send(message)
        except Exception as error:  # noqa: BLE001 - whatever a driver raises, the others go on
            self.lose(type(error).__name__, f"{type(error).__name__}: {error}")
            return False
        return True
