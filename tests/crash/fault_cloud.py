# SPDX-License-Identifier: Apache-2.0
"""Cloud with two control processes, many agent processes, a PostgreSQL and a RabbitMQ, all of which may fail.

Every process reaches the broker through a proxy of its own, and control processes the database too. The network service
is in this process (:class:`crash.fault_neutron.FaultyNeutron`).
"""

import http.client
import itertools
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from crash.fault_neutron import FaultyNeutron
from crash.launcher import Command, Launcher
from kilonova.bundled_services.free_ports import free_port
from kilonova.bundled_services.rabbitmq import RabbitMQ
from kilonova.db import enrolment, schema
from kilonova.db.database import Database
from kilonova.messaging.rabbit.topology import agent_user, control_user, definitions
from support.broker import SETTLED_S
from support.control import IMAGE, UNLIMITED
from support.database_servers import PostgreSQL, running
from support.glance_stand_in import GlanceStandIn
from support.http_clients import serving
from support.proxies import Proxy
from support.served import call
from support.waiting import wait_until

CONTROL = "control"
_CONTROLS = 2
_NUMA = [{"memory_mib": 8192, "cpus": "0-7", "dedicated": "8-15", "pages": {"4": 2_097_152}}]
_FLAVORS: tuple[dict[str, Any], ...] = (
    {"id": "1", "name": "m1.tiny", "vcpus": 1, "ram": 512, "disk": 1},
    {"id": "2", "name": "m1.small", "vcpus": 2, "ram": 1024, "disk": 2},
    {"id": "3", "name": "pinned", "vcpus": 2, "ram": 512, "disk": 1},
)
#: Timeout for all hosts to be up, in seconds; a thousand of them register at once.
_START_S = 180.0
_POLICIES = ("affinity", "anti-affinity", "soft-anti-affinity")
#: Shortest lease in seconds. Status questions wait up to half of it; operators use no shorter lease.
SHORTEST_LEASE_S = 4.0


@dataclass(frozen=True)
class Size:
    """Size of the cloud. ``lease_s``: lease of all processes, in seconds; the other timeouts follow from it."""

    agents: int = 4
    hosts: int = 10
    lease_s: float = 6.0


class ControlProcess(Command):
    """Control process. ``port``: of its APIs. ``broker``, ``database``: proxies through which it connects."""

    def __init__(self, cloud: "FaultCloud", number: int) -> None:
        name = f"control{number}"
        self.port = free_port()
        self.broker = Proxy(cloud.broker.port)
        self.database = Proxy(cloud.postgresql.port)
        folder = cloud.folder
        scenario = folder / "control.yaml"
        scenario.write_text("hosts: []\n")
        url = cloud.url.replace(f":{cloud.postgresql.port}/", f":{self.database.port}/")
        config = folder / f"{name}.conf"
        config.write_text(
            f"[DEFAULT]\ntransport_url = rabbit://{CONTROL}:{CONTROL}@127.0.0.1:{self.broker.port}/\n"
            f"rpc_response_timeout = {max(1, round(cloud.size.lease_s / 3))}\n"
            f"service_down_time = {round(4 * cloud.size.lease_s)}\nreport_interval = 1\n"
            f"vif_plugging_timeout = {round(2 * cloud.size.lease_s)}\n"
            "reclaim_instance_interval = 3600\n"
            f"[conductor]\nlease_time = {cloud.size.lease_s}\n{_broker_options(cloud.size)}"
            f"[api]\nauth_strategy = noauth2\nbind = 127.0.0.1:{self.port}\n[database]\nconnection = {url}\n"
            f"[fake]\nscenario = {scenario}\nstate_dir = {folder / 'hypervisors'}\n{UNLIMITED}"
            "[scheduler]\ncheck_kept_decisions = true\n"
            f"[glance]\nendpoint_override = http://127.0.0.1:{cloud.glance_port}\n[service_user]\nauth_type = none\n"
            f"[neutron]\nauth_type = none\nendpoint_override = http://127.0.0.1:{cloud.neutron.proxy.port}\n"
            f"timeout = {max(1, round(cloud.size.lease_s / 2))}\nstray_port_count_interval = 0\n"
        )
        super().__init__(cloud.launcher, name, ["api", "--config-file", str(config)], folder / f"{name}.log")

    def call(self, method: str, path: str, body: Any = None, token: str = "admin") -> tuple[int, Any]:
        return call(self.port, method, f"/compute/v2.1{path}", body, token=token)

    def operate(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Send a request to the operator API."""
        return call(self.port, method, f"/operator/v1{path}", body)

    def answers(self) -> bool:
        try:
            return self.call("GET", "/os-services")[0] == 200
        except (OSError, http.client.HTTPException):
            return False


class AgentProcess(Command):
    """Agent process. ``hosts``: names of its hosts."""

    def __init__(self, cloud: "FaultCloud", name: str, hosts: list[dict[str, Any]]) -> None:
        self.hosts = tuple(str(host["name"]) for host in hosts)
        self.broker = Proxy(cloud.broker.port)
        folder = cloud.folder
        scenario = folder / f"{name}.yaml"
        scenario.write_text(yaml.safe_dump({"hosts": hosts}))
        config = folder / f"{name}.conf"
        config.write_text(
            f"[DEFAULT]\ntransport_url = rabbit://{name}:{name}@127.0.0.1:{self.broker.port}/\nreport_interval = 1\n"
            f"cpu_allocation_ratio = 1.0\nrunning_deleted_instance_poll_interval = 2\n{_broker_options(cloud.size)}"
            f"[fake]\nscenario = {scenario}\nstate_dir = {folder / 'hypervisors'}\n"
        )
        super().__init__(cloud.launcher, name, ["compute", "--config-file", str(config)], folder / f"{name}.log")

    @property
    def sessions(self) -> int:
        return self.log.read_text().count(" begins: ") if self.log.exists() else 0


def _broker_options(size: Size) -> str:
    heartbeat = max(1, int(size.lease_s / 4))
    return (
        f"[oslo_messaging_rabbit]\nheartbeat_timeout_threshold = {heartbeat}\nrabbit_retry_interval = 0.2\n"
        "rabbit_retry_backoff = 0.2\nrabbit_interval_max = 1\n"
    )


class FaultCloud:
    """Running cloud; start and stop it from the main thread. ``broker`` and ``postgresql`` may be killed and restarted.

    ``glance``: the image service, which never fails. ``neutron``: the network service. ``rack``: id of an aggregate
    with some of the hosts.
    """

    def __init__(self, launcher: Launcher, folder: Path, size: Size, seed: str) -> None:
        self.launcher = launcher
        self.folder = folder
        self.size = size
        self.postgresql = PostgreSQL()
        self._rng = random.Random(f"cloud {seed}")
        self._servers = ExitStack()
        self._names = tuple(f"agent{number}" for number in range(size.agents))
        users = [control_user(CONTROL, CONTROL), *(agent_user(name, name) for name in self._names)]
        self.broker = RabbitMQ(folder / "broker", definitions("/", users, self._names))
        self.hypervisors = folder / "hypervisors"
        self.groups: tuple[str, ...] = ()
        self.rack = 0
        self.glance = GlanceStandIn({IMAGE: b"what servers are made of"})
        self.glance_port = 0
        self.neutron = FaultyNeutron(seed)
        self._turn = itertools.count()

    def start(self) -> None:
        """Start all processes, and wait until all hosts are up."""
        streams = lambda method, _path: method == "PUT"  # noqa: E731
        self.glance_port = self._servers.enter_context(serving(self.glance, streams=streams)).port
        self._servers.callback(self.neutron.stop)
        self.neutron.start(self.call)
        self._servers.callback(self.broker.stop)
        self.broker.start()
        self._servers.enter_context(running(self.postgresql))
        self.postgresql.create("kilonova")
        self.url = self.postgresql.url("kilonova")
        database = Database(self.url)
        schema.upgrade(database)
        shapes = {name: self._shapes(number) for number, name in enumerate(self._names)}
        for name, hosts in shapes.items():
            database.write(lambda tx, name=name, hosts=hosts: enrolment.enrol(tx, name, [h["name"] for h in hosts]))  # type: ignore[misc]
        database.close()
        self.broker.wait()
        time.sleep(SETTLED_S)
        self.hypervisors.mkdir()
        self.controls = tuple(ControlProcess(self, number) for number in range(_CONTROLS))
        self.agents = tuple(AgentProcess(self, name, hosts) for name, hosts in shapes.items())
        for process in self.processes:
            process.start()
        self.until_answering(at_most_s=_START_S)
        self.until_in_session(at_most_s=_START_S)
        for flavor in _FLAVORS:
            assert self.call("POST", "/flavors", {"flavor": flavor})[0] == 200
        pinned = {"extra_specs": {"hw:cpu_policy": "dedicated"}}
        assert self.call("POST", "/flavors/3/os-extra_specs", pinned)[0] == 200
        self.groups = tuple(self._make_group(policy) for policy in _POLICIES)
        self.rack = self._make_rack([agent.hosts[0] for agent in self.agents])

    @property
    def processes(self) -> tuple[Command, ...]:
        return (*self.controls, *self.agents)

    def call(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Send a request to the control processes in turn. Raises: OSError, http.client.HTTPException."""
        return self.controls[next(self._turn) % len(self.controls)].call(method, path, body)

    def until_answering(self, *, at_most_s: float) -> None:
        for control in self.controls:
            wait_until(control.answers, f"{control.name} to answer", at_most_s=at_most_s, every_s=0.1)

    def until_in_session(self, *, at_most_s: float) -> None:
        """Wait until all hosts are up."""

        def are_up() -> bool:
            try:
                _, body = self.call("GET", "/os-services?binary=nova-compute")
            except (OSError, http.client.HTTPException):
                return False
            states = [each["state"] for each in (body or {}).get("services", ())]
            return states == ["up"] * (self.size.agents * self.size.hosts)

        wait_until(are_up, "all hosts to be up", at_most_s=at_most_s, every_s=0.2)

    def stop(self) -> None:
        for process in getattr(self, "controls", ()) + getattr(self, "agents", ()):
            process.kill()
        self._servers.close()

    def _make_group(self, policy: str) -> str:
        status, body = self.call("POST", "/os-server-groups", {"server_group": {"name": policy, "policy": policy}})
        assert status == 200, body
        return str(body["server_group"]["id"])

    def _make_rack(self, hosts: Sequence[str]) -> int:
        status, body = self.call("POST", "/os-aggregates", {"aggregate": {"name": "rack"}})
        assert status == 200, body
        rack = int(body["aggregate"]["id"])
        for host in hosts:
            status, body = self.call("POST", f"/os-aggregates/{rack}/action", {"add_host": {"host": host}})
            assert status == 200, body
        return rack

    def _shapes(self, agent: int) -> list[dict[str, Any]]:
        """Return the configuration of an agent's simulated hosts: some are slow, some fail occasionally."""
        return list(itertools.islice(self._shape(agent), self.size.hosts))

    def _shape(self, agent: int) -> Iterator[dict[str, Any]]:
        rng = self._rng
        for number in itertools.count():
            host: dict[str, Any] = {
                "name": f"a{agent}-{number}",
                "vcpus": 8,
                "memory_mib": 8192,
                "spawn_delay_s": rng.choice([0.0, 0.1, 1.0]),
                "destroy_delay_s": rng.choice([0.0, 0.1, 0.5]),
                "move_delay_s": rng.choice([0.0, 0.1, 0.5]),
                "live_migration_s": rng.choice([0.0, 0.3, 2.0]),
                "failing_spawns": rng.choice([0, 0, 1, 2]),
                "failing_moves": rng.choice([0, 0, 0, 1]),
                "failing_live_migrations": rng.choice([0, 0, 1]),
                "snapshot_delay_s": rng.choice([0.0, 0.1, 0.5]),
                "failing_snapshots": rng.choice([0, 0, 1]),
            }
            yield host | ({"numa": _NUMA} if number % 2 else {})
