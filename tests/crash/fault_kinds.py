# SPDX-License-Identifier: Apache-2.0
"""Kinds of faults in a cloud of many processes. Each fault has victims, a start and a duration."""

import os
import random
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from crash.fault_cloud import AgentProcess, ControlProcess, FaultCloud
from crash.launcher import Command
from support.broker import SETTLED_S
from support.proxies import Proxy

BROKER, DATABASE, NETWORK = "broker", "database", "network service"


@dataclass(frozen=True)
class Fault:
    """Fault. ``begin`` starts it and returns the function that ends it after ``seconds``.

    ``victims``: processes that no other fault may affect meanwhile.
    """

    name: str
    victims: frozenset[str]
    seconds: float
    begin: Callable[[], Callable[[], None]]


class Faults:
    """Random choice of faults. ``partition_s``: maximum duration of a network partition, in seconds.

    ``kills``: share of faults that are always a SIGKILL of a process.
    """

    def __init__(self, cloud: FaultCloud, seed: str, partition_s: float, kills: float = 0.0) -> None:
        self._cloud = cloud
        self._kills = kills
        self._rng = random.Random(f"faults {seed}")
        self._partition_s = partition_s
        self._broker_started = self._database_started = time.monotonic()

    def choose(self) -> Fault:
        if self._rng.random() < self._kills:
            return self._kill(self._an_agent() if self._rng.random() < 0.6 else self._a_control())
        kinds: Sequence[tuple[int, Callable[[], Fault]]] = (
            (5, lambda: self._kill(self._an_agent())),
            (5, lambda: self._freeze(self._an_agent())),
            (3, lambda: self._kill(self._a_control())),
            (3, lambda: self._freeze(self._a_control())),
            (3, self._broker_away),
            (1, self._broker_frozen),
            (1, self._database_away),
            (1, self._database_frozen),
            (4, self._partition),
            (2, self._network_away),
            (2, self._network_silent),
            (2, self._network_slow),
            (3, self._network_wrong),
        )
        chosen = self._rng.choices([kind for _, kind in kinds], [weight for weight, _ in kinds])[0]
        return chosen()

    def _an_agent(self) -> AgentProcess:
        return self._rng.choice(self._cloud.agents)

    def _a_control(self) -> ControlProcess:
        return self._rng.choice(self._cloud.controls)

    def _for(self) -> tuple[str, float]:
        """Return a name suffix and a random duration, either well below the lease or longer than it."""
        lease = self._cloud.size.lease_s
        if self._rng.random() < 0.5:
            return "", self._rng.uniform(0.0, 0.5) * lease
        return " beyond its lease", self._rng.uniform(1.1, 2.0) * lease

    def _kill(self, process: Command) -> Fault:
        long, seconds = ("", 0.0) if self._rng.random() < 0.5 else self._for()

        def begin() -> Callable[[], None]:
            process.kill()
            return process.start

        return Fault(f"kill -9 {process.name}{long}", frozenset({process.name}), seconds, begin)

    def _freeze(self, process: Command) -> Fault:
        long, seconds = self._for()

        def begin() -> Callable[[], None]:
            process.signal(signal.SIGSTOP)
            return lambda: process.signal(signal.SIGCONT)

        return Fault(f"kill -STOP {process.name}{long}", frozenset({process.name}), seconds, begin)

    def _broker_away(self) -> Fault:
        _, seconds = ("", 0.0) if self._rng.random() < 0.5 else self._for()
        is_crash = self._rng.random() < 0.5
        broker = self._cloud.broker

        def begin() -> Callable[[], None]:
            time.sleep(max(0.0, self._broker_started + SETTLED_S - time.monotonic()))
            if is_crash:
                broker.kill()
            else:
                broker.stop()
            return end

        def end() -> None:
            broker.start()
            broker.wait()
            self._broker_started = time.monotonic()

        name = "kill -9 the broker" if is_crash else "restart the broker"
        return Fault(name, frozenset({BROKER}), seconds, begin)

    def _broker_frozen(self) -> Fault:
        long, seconds = self._for()
        broker = self._cloud.broker

        def begin() -> Callable[[], None]:
            os.kill(broker.pid, signal.SIGSTOP)
            return lambda: os.kill(broker.pid, signal.SIGCONT)

        return Fault(f"kill -STOP the broker{long}", frozenset({BROKER}), seconds, begin)

    def _database_away(self) -> Fault:
        _, seconds = ("", 0.0) if self._rng.random() < 0.5 else self._for()
        is_crash = self._rng.random() < 0.5
        server = self._cloud.postgresql

        def begin() -> Callable[[], None]:
            if is_crash:
                server.kill()
            else:
                server.shut_down()
            return end

        def end() -> None:
            server.start()
            server.wait()

        return Fault(f"{'kill -9' if is_crash else 'restart'} the database", frozenset({DATABASE}), seconds, begin)

    def _database_frozen(self) -> Fault:
        long, seconds = self._for()

        def begin() -> Callable[[], None]:
            frozen = ExitStack()
            frozen.enter_context(self._cloud.postgresql.frozen())
            return frozen.close

        return Fault(f"kill -STOP the database{long}", frozenset({DATABASE}), seconds, begin)

    def _partition(self) -> Fault:
        process = self._an_agent() if self._rng.random() < 0.6 else self._a_control()
        seconds = self._rng.uniform(0.2, 1.0) * self._partition_s
        stalls = self._rng.random() < 0.5
        wants_database = isinstance(process, ControlProcess) and self._rng.random() < 0.5
        whom = DATABASE if wants_database else BROKER
        proxy: Proxy = getattr(process, whom)

        def begin() -> Callable[[], None]:
            if stalls:
                proxy.stall()
                return proxy.go_on
            proxy.refuses = True
            proxy.drop()
            return end

        def end() -> None:
            proxy.refuses = False

        how = "stalls" if stalls else "resets"
        return Fault(f"network between {process.name} and {whom} {how}", frozenset({process.name}), seconds, begin)

    def _network_away(self) -> Fault:
        neutron = self._cloud.neutron

        def begin() -> None:
            neutron.proxy.refuses = True
            neutron.proxy.drop()

        def end() -> None:
            neutron.proxy.refuses = False

        return self._of_network("kill -9 the network service", begin, end)

    def _network_silent(self) -> Fault:
        """Return a fault in which requests wait. They are carried out afterwards, even if their callers are gone."""
        proxy = self._cloud.neutron.proxy
        return self._of_network("kill -STOP the network service", proxy.stall, proxy.go_on)

    def _network_slow(self) -> Fault:
        neutron = self._cloud.neutron
        delay_s = self._rng.choice([0.05, 0.3, 1.0]) * self._cloud.size.lease_s / 2

        def begin() -> None:
            neutron.delay_s = delay_s

        def end() -> None:
            neutron.delay_s = 0.0

        return self._of_network("the network service is slow", begin, end)

    def _network_wrong(self) -> Fault:
        """Return a fault in which single requests are lost, carried out twice, refused or not answered."""
        neutron = self._cloud.neutron

        def begin() -> None:
            neutron.share = 0.3

        def end() -> None:
            neutron.share = 0.0

        return self._of_network("the network service answers wrongly", begin, end)

    def _of_network(self, name: str, begin: Callable[[], None], end: Callable[[], None]) -> Fault:
        long, seconds = self._for()
        neutron = self._cloud.neutron

        def start() -> Callable[[], None]:
            neutron.begin_trouble()
            begin()
            return stop

        def stop() -> None:
            end()
            neutron.end_trouble()

        return Fault(f"{name}{long}", frozenset({NETWORK}), seconds, start)
