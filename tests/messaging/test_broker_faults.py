# SPDX-License-Identifier: Apache-2.0
"""What becomes of messages when the broker dies, freezes or is cut off, while both ends go on sending.

``make broker-faults`` takes longer over each of them.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Self

import psutil
import pytest

from kilonova.messaging.bus import Work
from kilonova.messaging.messages import AgentMessage, ConductorMessage, HostsRegistered, StepId, StepReply, StopGuest
from kilonova.messaging.thread_pools import AgentPool
from support.broker import SETTLED_S, Broker
from support.proxies import Proxy
from support.rabbit_ends import RabbitEnds, connected
from support.samples import IS_WHOLE
from support.waiting import wait_until

_HEARTBEAT_S = 10 if IS_WHOLE else 1
_FROZEN_S = 40.0 if IS_WHOLE else 3.0
_HOSTS = ("node0", "node1", "node2", "node3")


class Traffic:
    """Orders to four hosts and their replies, some hundred a second, numbered."""

    def __init__(self, ends: RabbitEnds) -> None:
        self.ends = ends
        self.sent = 0
        self.slowest_cast_s = 0.0
        self.accepted: list[int] = []
        self.replies: list[int] = []
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._send)
        ends.serve_conductor(self._take_reply, lambda *_: HostsRegistered())
        for host in _HOSTS:
            ends.serve_agent(host, self._accept)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()

    def _send(self) -> None:
        while not self._ends.wait(0.003):
            step = StepId(f"w{self.sent}", "s", self.sent)
            began = time.monotonic()
            self.ends.cast(_HOSTS[self.sent % 4], StopGuest(step, "a"))
            self.slowest_cast_s = max(self.slowest_cast_s, time.monotonic() - began)
            self.sent += 1

    def _accept(self, message: AgentMessage) -> Work:
        self.accepted.append(message.step.attempt)
        reply = StepReply(message.step, "node0", message.instance_uuid)
        return Work(AgentPool.ORDINARY, lambda: self.ends.tell(reply))

    def _take_reply(self, message: ConductorMessage) -> None:
        self.replies.append(message.step.attempt)


@contextmanager
def killed(broker: Broker, _proxy: Proxy) -> Iterator[None]:
    broker.restart()
    yield


@contextmanager
def restarted(broker: Broker, _proxy: Proxy) -> Iterator[None]:
    broker.server.stop()
    broker.start()
    yield


@contextmanager
def frozen(broker: Broker, _proxy: Proxy) -> Iterator[None]:
    with broker.frozen():
        time.sleep(_FROZEN_S)
        yield


@contextmanager
def stalled(_broker: Broker, proxy: Proxy) -> Iterator[None]:
    proxy.is_black_hole = True
    time.sleep(_FROZEN_S)
    yield
    proxy.is_black_hole = False


@contextmanager
def reset(_broker: Broker, proxy: Proxy) -> Iterator[None]:
    for _ in range(20 if IS_WHOLE else 3):
        proxy.drop()
        time.sleep(0.3)
    yield


Fault = Callable[[Broker, Proxy], AbstractContextManager[None]]
_FAULTS: tuple[Fault, ...] = (killed, frozen, stalled, reset, *([restarted] if IS_WHOLE else []))


@pytest.fixture
def ends(broker: Broker) -> Iterator[tuple[RabbitEnds, Proxy]]:
    proxy = Proxy(broker.server.port)
    made = RabbitEnds(
        broker, transport=lambda user: replace(broker.transport(user, port=proxy.port), heartbeat_s=_HEARTBEAT_S)
    )
    yield made, proxy
    made.close()
    proxy.close()


@pytest.mark.slow
@pytest.mark.parametrize("fault", _FAULTS, ids=lambda fault: fault.__name__)
def test_nothing_is_lost_and_nobody_waits(broker: Broker, ends: tuple[RabbitEnds, Proxy], fault: Fault) -> None:
    both, proxy = ends
    with Traffic(both) as traffic:
        wait_until(lambda: len(traffic.replies) > 50, "messages go there and back")
        if fault in (killed, restarted):
            time.sleep(SETTLED_S)
        with fault(broker, proxy):
            before = traffic.sent
            wait_until(lambda: traffic.sent > before + 50, "casts go on")
        wait_until(lambda: len(set(traffic.replies)) > before, "messages come again", at_most_s=60)
    connected(both.agent)
    connected(both.conductor)
    wait_until(lambda: len(set(traffic.replies)) == traffic.sent, "every reply comes", at_most_s=60)
    first = list(dict.fromkeys(traffic.accepted))
    assert first == list(range(traffic.sent)), "an order was lost, or overtook another one"
    assert traffic.slowest_cast_s < 0.5, "a cast waited"


@pytest.mark.slow
def test_ends_leave_nothing_behind(broker: Broker) -> None:
    RabbitEnds(broker).close()
    threads = {thread.name for thread in threading.enumerate()}
    proxy = Proxy(broker.server.port)
    for _ in range(3):
        made = RabbitEnds(broker, transport=lambda user, port=proxy.port: broker.transport(user, port=port))
        proxy.drop()
        made.close()
    open_ones = [each for each in psutil.Process().net_connections() if each.raddr and each.raddr.port == proxy.port]
    assert not open_ones
    left = {thread.name for thread in threading.enumerate()} - threads
    assert not [name for name in left if name.startswith(("agent", "control", "conductor"))]
    proxy.close()
