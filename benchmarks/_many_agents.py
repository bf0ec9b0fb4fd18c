# SPDX-License-Identifier: Apache-2.0
"""A cloud with many agent processes: a control process, RabbitMQ, PostgreSQL and many ``kilonova compute``.

All are separate processes that communicate over TCP on the loopback and run the code that operators run. Agents are
forked from a process that has imported their code, so a hundred can start at once on a small machine. Each agent has
its own broker account, connection, queues and simulated hosts.
"""

import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import psutil
import sqlalchemy as sa
from tests.support.database_servers import PostgreSQL

from benchmarks._agent_clouds import broker_url, control_config, cpu_s, fresh, kilonova, postgresql_cpu_s
from benchmarks._forked_agents import start_agent
from benchmarks.servers import Client
from kilonova.bundled_services.rabbitmq import RabbitMQ
from kilonova.db import enrolment
from kilonova.db.core import tables as t
from kilonova.db.database import Database
from kilonova.messaging.rabbit.topology import agent_user, control_user, definitions

_CONTROL = "control"
_DATABASE = "many"
_PREFIX = "rack{:04d}-"
_LOOK_EVERY_S = 0.25
_P = t.processes.c


@dataclass(frozen=True, slots=True)
class Moment:
    """Resource usage of the cloud at one moment. ``cpu_s``, ``log_bytes``: by kind of process.

    Units: ``at`` seconds, ``commits`` rows, ``change_log`` and ``wal`` bytes.
    """

    at: float
    cpu_s: Mapping[str, float]
    log_bytes: Mapping[str, int]
    commits: int
    change_log: int
    wal: int


class ManyAgents:
    """A cloud of ``agents`` agent processes with ``hosts`` hosts each. At first only its PostgreSQL ``server`` runs."""

    def __init__(self, folder: Path, server: PostgreSQL, agents: int, hosts: int, settings: str) -> None:
        self.hosts_each = hosts
        self._folder = folder
        self._server = server
        fresh(server, _DATABASE)
        self.database = Database(server.url(_DATABASE))
        self.agents = tuple(f"agent{number:04d}" for number in range(agents))
        for number, agent in enumerate(self.agents):
            names = [f"{_PREFIX.format(number)}{host}" for host in range(1, hosts + 1)]
            self.database.write(lambda tx, agent=agent, names=names: enrolment.enrol(tx, agent, names))  # type: ignore[misc]
        users = [control_user(_CONTROL, _CONTROL), *(agent_user(agent, agent) for agent in self.agents)]
        self.broker = RabbitMQ(folder / "broker", definitions("/", users, ()))
        self._settings = settings
        self._control: subprocess.Popen[bytes] | None = None
        self._config, self._port = folder / "kilonova.conf", 0
        self._running: dict[str, BaseProcess] = {}
        #: Kind of process → CPU time of its ended processes, in seconds.
        self._ended: dict[str, float] = {}

    def start_broker(self) -> None:
        self.broker.start()
        self.broker.wait()

    def start_control(self) -> float:
        """Start the control process; return the seconds until it answers."""
        if not self._port:
            more = f"[DEFAULT]\ntransport_url = {broker_url(self.broker, _CONTROL)}\n{self._settings}"
            self._config, self._port = control_config(self._folder, self._server.url(_DATABASE), more)
        since = time.monotonic()
        self._control = kilonova("api", self._config, self._folder / "control.log")
        wait_until(self._answers, 120.0)
        return time.monotonic() - since

    def start_agents(self, agents: Sequence[str]) -> None:
        """Start agent processes without waiting for them."""
        for agent in agents:
            folder = self._folder / agent
            folder.mkdir(exist_ok=True)
            config = folder / "agent.conf"
            config.write_text(
                f"[DEFAULT]\ntransport_url = {broker_url(self.broker, agent)}\n[fake]\nhosts = {self.hosts_each}\n"
                f"host_prefix = {_PREFIX.format(self.agents.index(agent))}\nstate_dir = {folder / 'hypervisors'}\n"
            )
            self._running[agent] = start_agent(str(config), str(folder / "agent.log"))

    def kill_control(self) -> None:
        self._note_end("control", self.control.pid)
        self.control.kill()
        self.control.wait()

    def kill_agent(self, agent: str) -> None:
        process = self._running.pop(agent)
        self._note_end("agents", process.pid)
        process.kill()
        process.join()

    def restart_broker(self) -> None:
        """Kill the broker, start it again and wait until it accepts connections."""
        self._note_end("broker", self.broker.pid)
        self.broker.kill()
        self.start_broker()

    def stop(self) -> None:
        for process in self._running.values():
            process.terminate()
        for process in self._running.values():
            process.join(30)
        if self._control is not None and self._control.poll() is None:
            self._control.terminate()
            self._control.wait(60)
        self.broker.stop()
        self.database.close()

    @property
    def control(self) -> subprocess.Popen[bytes]:
        assert self._control is not None
        return self._control

    @property
    def url(self) -> str:
        """Base URL of the control process."""
        return f"http://127.0.0.1:{self._port}"

    def client(self) -> Client:
        return Client(self._port)

    def host(self, agent: str) -> str:
        """Return the last host of an agent."""
        return f"{_PREFIX.format(self.agents.index(agent))}{self.hosts_each}"

    def registered(self) -> int:
        """Return the number of hosts that have an agent according to the database."""
        with self.database.read() as connection:
            return int(connection.execute(sa.select(sa.func.count()).select_from(t.host_agents)).scalar_one())

    def sessions(self) -> frozenset[str]:
        """Return the sessions that have hosts and a valid lease."""
        has_hosts = sa.exists().where(t.host_agents.c.process == _P.uuid)
        return self._uuids(has_hosts, _P.lease_until > self.database.clock.now())

    def heard_since(self, when: Any) -> frozenset[str]:
        """Return the sessions whose last heartbeat is later than ``when`` (database time)."""
        return self._uuids(_P.last_seen_at > when, _P.up.is_(True))

    def _uuids(self, *which: sa.ColumnElement[bool]) -> frozenset[str]:
        with self.database.read() as connection:
            found = connection.execute(sa.select(_P.uuid).where(_P.agent.is_not(None), *which))
            return frozenset(found.scalars())

    def memory_mib(self, kind: str) -> tuple[float, float, float]:
        """Return the memory of a kind of process: total RSS, total PSS, and highest peak RSS. Units: MiB."""
        pids = [self.control.pid] if kind == "control" else [one.pid for one in self._running.values()]
        some = [psutil.Process(pid).memory_full_info() for pid in pids]
        peaks = [_peak_kib(pid) for pid in pids if pid is not None]
        return sum(one.rss for one in some) / 2**20, sum(one.pss for one in some) / 2**20, max(peaks) / 1024

    def forget_peak(self) -> None:
        """Reset the peak RSS of the control process."""
        Path(f"/proc/{self.control.pid}/clear_refs").write_text("5")

    def now(self) -> Moment:
        with self.database.read() as connection:
            asked = "SELECT count(*), coalesce(sum(pg_column_size(change_log.*)), 0) FROM change_log"
            commits, change_log = connection.execute(sa.text(asked)).one()
            wal = connection.execute(sa.text("SELECT pg_current_wal_lsn() - '0/0'")).scalar_one()
        logs = {
            "control": (self._folder / "control.log").stat().st_size,
            "agents": sum(path.stat().st_size for path in self._folder.glob("*/agent.log")),
        }
        cpu = {
            "control": self._cpu_s("control", [self.control.pid]),
            "broker": self._cpu_s("broker", [self.broker.pid]),
            "PostgreSQL": postgresql_cpu_s(self._server),
            "agents": self._cpu_s("agents", [one.pid for one in self._running.values()]),
        }
        return Moment(time.perf_counter(), cpu, logs, commits, int(change_log), int(wal))

    def _cpu_s(self, kind: str, pids: Sequence[int | None]) -> float:
        return self._ended.get(kind, 0.0) + sum(cpu_s(psutil.Process(pid)) for pid in pids)

    def _note_end(self, kind: str, pid: int | None) -> None:
        self._ended[kind] = self._ended.get(kind, 0.0) + cpu_s(psutil.Process(pid))

    def _answers(self) -> bool:
        if self.control.poll() is not None:
            raise SystemExit(f"the control process exited:\n{(self._folder / 'control.log').read_text()[-2000:]}")
        try:
            self.client().call("GET", "/compute/v2.1")
        except OSError:
            return False
        return True


def wait_until(is_so: Callable[[], bool], timeout_s: float) -> None:
    """Poll ``is_so`` until it returns True. Raises: SystemExit after ``timeout_s`` seconds."""
    until = time.monotonic() + timeout_s
    while not is_so():
        if time.monotonic() > until:
            raise SystemExit(f"timeout after {timeout_s:.0f} s: {is_so}")
        time.sleep(_LOOK_EVERY_S)


def _peak_kib(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
