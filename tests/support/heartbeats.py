# SPDX-License-Identifier: Apache-2.0
"""Processes that register, send heartbeats, stop sending them, and are watched by another one."""

from datetime import timedelta

from kilonova.conductor.hosts.service_liveness import ServiceLiveness
from kilonova.db import host_agents, services
from kilonova.db.database import Database
from kilonova.db.host_agents import LEASE, Process
from kilonova.model.host import COMPUTE, Service
from support.processes import pass_time

DOWN_TIME = timedelta(seconds=45)
SESSION = Process("session 1", "rack1", "rack1-agent", "1.2.3", 2)


def register(database: Database, process: Process, *hosts: str, lease: timedelta = LEASE) -> None:
    database.write(lambda tx: host_agents.register(tx, process, hosts, lease))


def beat(database: Database, *sessions: str) -> frozenset[str]:
    return database.write(lambda tx: host_agents.keep_alive(tx, sessions, LEASE))


def living(database: Database) -> set[str]:
    with database.read() as connection:
        return set(host_agents.living(connection, database.clock.now()))


def service_of(database: Database, host: str, binary: str = COMPUTE) -> Service:
    database.write(lambda tx: services.ensure(tx, host, binary))
    with database.read() as connection:
        return services.get_by_host(connection, host, binary)


class Listener:
    """A control process that checks the liveness of the other processes while time passes for all of them."""

    def __init__(self, database: Database, name: str = "listener") -> None:
        self.hears = True
        self._database = database
        self._now = 0.0
        self._silence = ServiceLiveness(
            database, DOWN_TIME, listener=name, hears=lambda: self.hears, clock=lambda: self._now
        )
        self._silence.look()

    def wait(self, passed: timedelta, *, stopped: bool = False) -> None:
        for part in range(1 if stopped else 10):
            pass_time(self._database, passed / (1 if stopped else 10))
            self._now += passed.total_seconds() / (1 if stopped else 10)
            if part < 9:
                self._silence.look()
        self._silence.look()
