# SPDX-License-Identifier: Apache-2.0
"""A process that was kept from running for a while reads what has come before it judges the silence of the broker."""

import socket
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from kilonova.messaging.rabbit.link import Link
from kilonova.messaging.rabbit.transport_url import BrokerAddress, Transport, TransportUrl
from support.waiting import wait_until

_ADDRESS = BrokerAddress("localhost", 5672, "a", "a")


class Channel:
    """Takes whatever it is asked for."""

    def __init__(self) -> None:
        self.events: dict[str, set[Any]] = defaultdict(set)

    def __getattr__(self, _name: str) -> Callable[..., None]:
        return lambda *_, **__: None


class Connection:
    """Notes what is done: whether it was read since the thread slept, whenever its heartbeats are looked after."""

    def __init__(self) -> None:
        self.sock, self._other = socket.socketpair()
        self.is_read = False
        self.ticks: list[bool] = []

    def channel(self) -> Channel:
        return Channel()

    def drain_events(self, timeout: float) -> None:
        del timeout
        self.is_read = True
        raise TimeoutError

    def heartbeat_tick(self) -> None:
        self.ticks.append(self.is_read)


class SlowLink(Link):
    """Whose thread is kept from running whenever it has slept."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(Transport(TransportUrl((_ADDRESS,), "/"), heartbeat_s=1), "slow")
        self._made = connection

    def _try(self, address: BrokerAddress) -> None:
        self._session(self._made, address)  # type: ignore[arg-type]

    def _sleep(self, sock: Any) -> None:
        super()._sleep(sock)
        self._made.is_read = False
        time.sleep(0.25)


def test_heartbeats_are_looked_after_when_what_has_come_is_read() -> None:
    connection = Connection()
    link = SlowLink(connection)
    link.start()
    wait_until(lambda: len(connection.ticks) >= 3, "its heartbeats are looked after", at_most_s=20)
    link.close()
    assert all(connection.ticks)
