# SPDX-License-Identifier: Apache-2.0
"""``kilonova up --agents``: hosts in agent processes, on the SQLite database of the folder."""

import contextlib
import json
import os
import signal
import socket
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests

from kilonova.model.instance import PowerState
from support.stock_cloud import StockCloud
from support.supervisor import Supervisor
from support.waiting import wait_until
from support.world import power_states_on_disk

HOSTS = 5
#: Hosts on which power-on takes 3 s, so that a crash can be timed.
SCENARIO = "hosts:\n  - {name: node, count: 5, start_delay_s: 3}\n"


class AgentCloud:
    """Running cloud with agent processes, used through its API."""

    def __init__(self, folder: Path, supervisor: Supervisor) -> None:
        self.folder = folder
        self.supervisor = supervisor
        self._session = supervisor.session()
        self._session.headers["OpenStack-API-Version"] = "compute 2.90"

    def get(self, path: str) -> Any:
        answer = self._session.get(f"http://127.0.0.1:{self.supervisor.ports[0]}/compute/v2.1{path}", timeout=30)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def boot(self, count: int) -> None:
        image = self.supervisor.images()[0]["id"]
        flavor = next(each["id"] for each in self.get("/flavors")["flavors"] if each["name"] == "m1.tiny")
        server = {"name": "vm", "imageRef": image, "flavorRef": flavor, "networks": "none", "min_count": count}
        answer = self._session.post(
            f"http://127.0.0.1:{self.supervisor.ports[0]}/compute/v2.1/servers",
            json={"server": {**server, "max_count": count}},
            timeout=30,
        )
        assert answer.status_code == 202, answer.text

    def reboot(self, uuid: str, how: str) -> None:
        answer = self._session.post(
            f"http://127.0.0.1:{self.supervisor.ports[0]}/compute/v2.1/servers/{uuid}/action",
            json={"reboot": {"type": how}},
            timeout=30,
        )
        assert answer.status_code == 202, answer.text

    def task(self, uuid: str) -> str | None:
        task: str | None = self.get(f"/servers/{uuid}")["server"]["OS-EXT-STS:task_state"]
        return task

    def kill_agents(self) -> None:
        """Kill the agent processes with SIGKILL; on SIGTERM they would finish their work."""
        for pid in self.supervisor.descendants():
            if b"compute" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
                os.kill(pid, signal.SIGKILL)

    def guest(self, uuid: str) -> PowerState:
        """Return the guest's power state in the simulated hypervisor."""
        return power_states_on_disk(self.folder / "hypervisors")[uuid]

    def simulate(self, *words: str) -> str:
        """Run `kilonova simulate`, which changes a host without the control process."""
        return self._kilonova("simulate", *words)

    def _kilonova(self, *words: str) -> str:
        done = StockCloud(self.supervisor).kilonova(*words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def servers(self) -> dict[str, str]:
        """Return server → its host, or its status if it is not active."""
        return {
            each["id"]: each["OS-EXT-SRV-ATTR:host"] if each["status"] == "ACTIVE" else each["status"]
            for each in self.get("/servers/detail")["servers"]
        }

    def boots(self, uuid: str) -> list[str]:
        """Return the kinds of a server's boots, from its console output."""
        answer = self._session.post(
            f"http://127.0.0.1:{self.supervisor.ports[0]}/compute/v2.1/servers/{uuid}/action",
            json={"os-getConsoleOutput": {}},
            timeout=30,
        )
        assert answer.status_code == 200, answer.text
        lines = answer.json()["output"].splitlines()
        return [line.rpartition(": ")[2] for line in lines if " Boot at " in line]

    def greeting(self, uuid: str) -> bytes:
        """Return the greeting of a server's VNC console for a client with a token."""
        body = {"remote_console": {"protocol": "vnc", "type": "novnc"}}
        root = f"http://127.0.0.1:{self.supervisor.ports[0]}/compute/v2.1"
        answer = self._session.post(f"{root}/servers/{uuid}/remote-consoles", json=body, timeout=30)
        assert answer.status_code == 200, answer.text
        token = answer.json()["remote_console"]["url"].rpartition("token%3D")[2]
        console = self.get(f"/os-console-auth-tokens/{token}")["console"]
        with socket.create_connection((console["host"], console["port"]), timeout=10) as viewer:
            return viewer.recv(12)

    def agents(self) -> dict[str, list[str]]:
        listed = json.loads(self._kilonova("compute", "agents", "--json"))["agents"]
        return {each["name"]: each["hosts"] for each in listed if each["revoked_at"] is None}

    def serves(self) -> bool:
        """Whether Keystone issues a token and the control process accepts it."""
        try:
            session = self.supervisor.session()
            url = f"http://127.0.0.1:{self.supervisor.ports[0]}/compute/v2.1/servers"
            return session.get(url, timeout=30).status_code == 200
        except requests.ConnectionError:
            return False

    def up(self) -> set[str]:
        services = self.get("/os-services?binary=nova-compute")["services"]
        return {each["host"] for each in services if each["state"] == "up"}


@contextmanager
def agent_cloud(folder: Path, agents: int) -> Iterator[AgentCloud]:
    """Start a cloud with ``agents`` agent processes, and always stop it."""
    scenario = folder.with_suffix(".yaml")
    scenario.write_text(SCENARIO)
    supervisor = Supervisor(folder, arguments=("--agents", str(agents), "--scenario", str(scenario))).start()
    try:
        yield AgentCloud(folder, supervisor.until_ready())
    finally:
        supervisor.stop()


def tasks_from_now_on(folder: Path, uuid: str, seen: list[str | None]) -> None:
    """Append the task states of a server until it has none, read from the database, even while no API answers."""
    until = time.monotonic() + 180  # includes the start of the next cloud on a busy machine
    with contextlib.closing(sqlite3.connect(folder / "kilonova.db", timeout=10)) as database:
        while seen[-1:] != [None] and time.monotonic() < until:
            ((task,),) = database.execute("SELECT task_state FROM instances WHERE uuid = ?", (uuid,)).fetchall()
            if seen[-1:] != [task]:
                seen.append(task)
            time.sleep(0.01)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cloud"


def require_restarts_of_killed_processes(cloud: AgentCloud, hosts: set[str]) -> None:
    """Kill the broker and a process of each kind; require new ones, and a new server on each host."""
    marks = {
        "agent1": "agent1.conf",
        "broker": "beam.smp",
        "control": f"kilonova\0api\0--config-file\0{cloud.folder}",
        "keystone": "bundled_services.keystone",
    }
    victims = {cloud.supervisor.descendant(mark) for mark in marks.values()}
    before = set(cloud.servers())
    for victim in victims:
        os.kill(victim, signal.SIGKILL)
    lines = [cloud.supervisor.next_line("was killed by SIGKILL; starting it again in 1 s, log in ") for _ in marks]
    assert {line.split()[0] for line in lines} == set(marks)
    wait_until(cloud.serves, "the cloud to serve again", at_most_s=60, every_s=0.2)
    assert victims.isdisjoint(cloud.supervisor.descendants())
    cloud.boot(HOSTS)

    def homes() -> list[str]:
        return sorted(home for uuid, home in cloud.servers().items() if uuid not in before)

    wait_until(lambda: homes() == sorted(hosts), "a new server on every host", at_most_s=90, every_s=0.2)


def test_a_cloud_with_agents_survives_the_death_of_its_supervisor_and_of_each_process(folder: Path) -> None:
    with agent_cloud(folder, agents=2) as cloud:
        hosts = {f"node{number}" for number in range(1, HOSTS + 1)}
        assert cloud.up() == hosts
        assert cloud.agents() == {"agent1": ["node1", "node2", "node3"], "agent2": ["node4", "node5"]}
        cloud.boot(HOSTS)
        wait_until(lambda: set(cloud.servers().values()) == hosts, "a server on every host", at_most_s=60)
        before = cloud.servers()
        assert {"first start"} == {how for uuid in before for how in cloud.boots(uuid)}
        for uuid in before:
            assert cloud.get(f"/servers/{uuid}/diagnostics")["state"] == "running"
            assert cloud.greeting(uuid) == b"RFB 003.008\n"
        assert (folder / "agents" / "agent1.conf").stat().st_mode & 0o777 == 0o600
        for name in ("agent1.conf", "agent1.hosts.conf"):
            text = (folder / "agents" / name).read_text()
            assert not [word for word in ("sqlite", "auth_url", "[keystone") if word in text]
        rebooted = next(uuid for uuid, host in before.items() if host == "node1")
        cloud.reboot(rebooted, "SOFT")
        wait_until(lambda: cloud.guest(rebooted) is PowerState.SHUTDOWN, "the guest to shut down", at_most_s=30)
        wait_until(lambda: cloud.task(rebooted) == "reboot_started", "the task state reboot_started", at_most_s=30)
        cloud.kill_agents()
        assert (
            cloud.supervisor.signal(signal.SIGKILL) == -signal.SIGKILL
        )  # signal() also waits for all descendants to end

    tasks: list[str | None] = []
    watching = threading.Thread(target=tasks_from_now_on, args=(folder, rebooted, tasks))
    watching.start()
    with agent_cloud(folder, agents=1) as cloud:
        assert cloud.agents() == {"agent1": sorted(hosts)}
        watching.join()
        assert tasks == ["reboot_started", "reboot_pending_hard", "reboot_started_hard", None]
        assert cloud.up() == hosts
        assert cloud.servers() == before
        cloud.simulate("stop", before[rebooted], rebooted)
        wait_until(lambda: cloud.servers()[rebooted] == "SHUTOFF", "the stopped guest to be noticed", at_most_s=30)
        assert StockCloud(cloud.supervisor).show("server", "show", rebooted)["status"] == "SHUTOFF"
        require_restarts_of_killed_processes(cloud, hosts)
        assert cloud.supervisor.signal(signal.SIGTERM) == 0
