# SPDX-License-Identifier: Apache-2.0
"""One timer for all agents of a process: every interval, one message that they are alive."""

from collections.abc import Sequence

from kilonova.messaging.bus import AgentBus
from kilonova.messaging.messages import Heartbeat
from kilonova.periodic import PeriodicThread


class HeartbeatTimer:
    """Tells the conductor that ``hosts`` are alive. Units: ``interval_s`` seconds."""

    def __init__(self, bus: AgentBus, hosts: Sequence[str], interval_s: float) -> None:
        self._bus = bus
        self._hosts = tuple(hosts)
        self._thread = PeriodicThread(
            "heartbeat", self._tell, interval_s, complaint="The conductor was not told that the hosts are alive"
        )

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._thread.stop()

    def _tell(self) -> None:
        self._bus.ask(Heartbeat(self._hosts))
