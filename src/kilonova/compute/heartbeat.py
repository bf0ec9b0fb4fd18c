# SPDX-License-Identifier: Apache-2.0
"""One timer for all agents of a process: every interval, one message that they are alive."""

import threading
from collections.abc import Sequence

from kilonova.messaging.bus import Bus
from kilonova.messaging.messages import Heartbeat


class HeartbeatTimer:
    """Tells the conductor that ``hosts`` are alive. Units: ``interval_s`` seconds."""

    def __init__(self, bus: Bus, hosts: Sequence[str], interval_s: float) -> None:
        self._bus = bus
        self._hosts = tuple(hosts)
        self._interval_s = interval_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(self._interval_s):
            self._bus.tell(Heartbeat(self._hosts))
