# SPDX-License-Identifier: Apache-2.0
"""Two clouds with the same hosts: one with agents in the control process, one with separate agent processes.

Each has a control process (noauth2) and its own database on a shared PostgreSQL; the second also has a private RabbitMQ
and a few ``kilonova compute`` processes. CPU time and memory of each process can be read.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
from tests.support.database_servers import DatabaseServer

from benchmarks.servers import Client
from kilonova.bundled_services.free_ports import free_port
from kilonova.bundled_services.parent_death import die_with_parent
from kilonova.bundled_services.rabbitmq import RabbitMQ
from kilonova.db import enrolment, schema
from kilonova.db.database import Database
from kilonova.messaging.rabbit.topology import agent_user, control_user, definitions

_MIB = 2**20
_CONTROL = "control"
_HOST = "vcpus: 64, memory_mib: 524288, disk_gib: 20000"
_START_S = 60.0
_FLAVOR = {"id": "1", "name": "m1.tiny", "ram": 512, "vcpus": 1, "disk": 1}


@dataclass(frozen=True, slots=True)
class Cloud:
    """A running cloud. ``processes``: kind (control, broker, agents) → its processes."""

    name: str
    port: int
    processes: Mapping[str, Sequence[psutil.Process]]

    def client(self) -> Client:
        return Client(self.port)

    def cpu_s(self) -> dict[str, float]:
        """Return the CPU time used so far by each kind of process. Units: seconds."""
        return {kind: sum(cpu_s(one) for one in some) for kind, some in self.processes.items()}

    def memory_mib(self) -> dict[str, list[tuple[float, float]]]:
        """Return (RSS, PSS) of each process by kind. Units: MiB."""
        return {
            kind: [(full.rss / _MIB, full.pss / _MIB) for full in (one.memory_full_info() for one in some)]
            for kind, some in self.processes.items()
        }


@contextmanager
def cloud_in_one_process(folder: Path, database: DatabaseServer, hosts: int) -> Iterator[Cloud]:
    """Run a cloud whose simulated hosts are in the control process."""
    folder.mkdir()
    fresh(database, "inside")
    with _control(folder, database.url("inside"), "", _scenario(folder, _names(hosts))) as (process, port):
        yield _ready(Cloud("in-process bus", port, {"control": [psutil.Process(process.pid)]}), hosts)


@contextmanager
def cloud_over_a_broker(folder: Path, database: DatabaseServer, hosts: int, agents: int) -> Iterator[Cloud]:
    """Run a cloud whose simulated hosts are divided among ``agents`` agent processes."""
    folder.mkdir(mode=0o711)
    fresh(database, "apart")
    names = _names(hosts)
    shares = {f"agent{number}": names[number::agents] for number in range(agents)}
    opened = Database(database.url("apart"))
    for agent, served in shares.items():
        opened.write(lambda tx, agent=agent, served=served: enrolment.enrol(tx, agent, served))  # type: ignore[misc]
    opened.close()
    users = [control_user(_CONTROL, _CONTROL), *(agent_user(agent, agent) for agent in shares)]
    broker = RabbitMQ(folder / "broker", definitions("/", users, ()))
    broker.start()
    started: list[subprocess.Popen[bytes]] = []
    try:
        broker.wait()
        more = f"[DEFAULT]\ntransport_url = {broker_url(broker, _CONTROL)}\n"
        with _control(folder, database.url("apart"), more, _scenario(folder, ())) as (control, port):
            started += [_agent(folder / agent, broker_url(broker, agent), served) for agent, served in shares.items()]
            processes = {
                "control": [psutil.Process(control.pid)],
                "broker": [psutil.Process(broker.pid)],
                "agents": [psutil.Process(one.pid) for one in started],
            }
            yield _ready(Cloud("agents over RabbitMQ", port, processes), hosts)
    finally:
        for one in started:
            one.terminate()
            one.wait()
        broker.stop()


def postgresql_cpu_s(database: DatabaseServer) -> float:
    """Return the CPU time used by all processes of a PostgreSQL server. Units: seconds."""
    parent = next(one for one in psutil.Process().children() if one.name().startswith("postgres"))
    assert str(database.folder) in " ".join(parent.cmdline())
    return sum(cpu_s(one) for one in (parent, *parent.children(recursive=True)))


def cpu_s(process: psutil.Process) -> float:
    """Return the CPU time of a process and its ended children. Units: seconds."""
    taken = process.cpu_times()
    return float(taken.user + taken.system + taken.children_user + taken.children_system)


def _names(hosts: int) -> tuple[str, ...]:
    return tuple(f"node{number:04d}" for number in range(hosts))


def fresh(server: DatabaseServer, name: str) -> None:
    """Create a database with Kilonova's schema on a server."""
    server.create(name)
    database = Database(server.url(name))
    schema.upgrade(database)
    database.close()


def _scenario(folder: Path, hosts: Sequence[str]) -> str:
    path = folder / "scenario.yaml"
    path.write_text(
        "images: [{name: tiny}]\nhosts: [" + ", ".join(f"{{name: {host}, {_HOST}}}" for host in hosts) + "]\n"
    )
    return f"[fake]\nstate_dir = {folder / 'hypervisors'}\nscenario = {path}\n"


def broker_url(broker: RabbitMQ, user: str) -> str:
    """Return the transport URL of a user whose password equals the user name."""
    return f"rabbit://{user}:{user}@127.0.0.1:{broker.port}/"


def control_config(folder: Path, database_url: str, more: str) -> tuple[Path, int]:
    """Write the configuration of a control process without Keystone and quotas; return (path, port)."""
    port = free_port()
    config = folder / "kilonova.conf"
    config.write_text(
        f"{more}[api]\nauth_strategy = noauth2\nbind = 127.0.0.1:{port}\n[database]\nconnection = {database_url}\n"
        "[quota]\ninstances = -1\ncores = -1\nram = -1\n"
    )
    return config, port


@contextmanager
def _control(folder: Path, database_url: str, more: str, fake: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    config, port = control_config(folder, database_url, more + fake)
    process = kilonova("api", config, folder / "control.log")
    try:
        yield process, port
    finally:
        process.terminate()
        process.wait(30)


def _agent(folder: Path, url: str, hosts: Sequence[str]) -> subprocess.Popen[bytes]:
    folder.mkdir()
    config = folder / "agent.conf"
    config.write_text(f"[DEFAULT]\ntransport_url = {url}\n{_scenario(folder, hosts)}")
    return kilonova("compute", config, folder / "agent.log")


def kilonova(command: str, config: Path, log: Path) -> subprocess.Popen[bytes]:
    """Start a ``kilonova`` command that dies with this process. ``log``: file to which its output is appended."""
    parent = os.getpid()
    with log.open("ab") as output:
        started = [sys.executable, "-m", "kilonova", command, "--config-file", str(config)]
        return subprocess.Popen(
            started,
            stdout=output,
            stderr=output,
            preexec_fn=lambda: die_with_parent(parent),  # noqa: PLW1509  this process has no other threads yet
        )


def _ready(cloud: Cloud, hosts: int) -> Cloud:
    """Wait until all hosts of a cloud are up, create a flavor, and return the cloud."""
    deadline = time.monotonic() + _START_S
    while True:
        try:
            services = cloud.client().call("GET", "/compute/v2.1/os-services?binary=nova-compute")["services"]
            if sum(service["state"] == "up" for service in services) == hosts:
                break
        except OSError:
            if not all(one.is_running() for some in cloud.processes.values() for one in some):
                raise SystemExit(f"{cloud.name}: a process exited unexpectedly") from None
        if time.monotonic() > deadline:
            raise SystemExit(f"{cloud.name}: not all hosts are up after {_START_S:.0f} s")
        time.sleep(0.1)
    cloud.client().call("POST", "/compute/v2.1/flavors", {"flavor": _FLAVOR})
    return cloud
