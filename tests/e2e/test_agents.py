# SPDX-License-Identifier: Apache-2.0
"""``kilonova up --agents``: hosts in processes of their own, on the SQLite database of the folder."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.supervisor import Supervisor
from support.waiting import wait_until

HOSTS = 5


class AgentCloud:
    """A cloud with two agent processes, through its API."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def start(self, agents: int) -> "AgentCloud":
        arguments = ("--agents", str(agents), "--hosts", str(HOSTS))
        self.supervisor = Supervisor(self.folder, arguments=arguments).start().until_ready()
        self._session = self.supervisor.session()
        self._session.headers["OpenStack-API-Version"] = "compute 2.90"
        return self

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

    def servers(self) -> dict[str, str]:
        """Return server → its host, or its status while it is not active."""
        return {
            each["id"]: each["OS-EXT-SRV-ATTR:host"] if each["status"] == "ACTIVE" else each["status"]
            for each in self.get("/servers/detail")["servers"]
        }

    def boots(self, uuid: str) -> list[str]:
        """Return how a server was started, as its agent tells of its console."""
        answer = self._session.post(
            f"http://127.0.0.1:{self.supervisor.ports[0]}/compute/v2.1/servers/{uuid}/action",
            json={"os-getConsoleOutput": {}},
            timeout=30,
        )
        assert answer.status_code == 200, answer.text
        lines = answer.json()["output"].splitlines()
        return [line.rpartition(": ")[2] for line in lines if " Boot at " in line]

    def agents(self) -> dict[str, list[str]]:
        done = subprocess.run(
            [sys.executable, "-m", "kilonova", "compute", "agents", "--data", str(self.folder), "--json"],
            capture_output=True,
            check=True,
            timeout=60,
        )
        listed = json.loads(done.stdout)["agents"]
        return {each["name"]: each["hosts"] for each in listed if each["revoked_at"] is None}

    def up(self) -> set[str]:
        services = self.get("/os-services?binary=nova-compute")["services"]
        return {each["host"] for each in services if each["state"] == "up"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cloud"


def test_a_cloud_with_agents_dies_with_its_supervisor_and_goes_on_with_fewer_agents(folder: Path) -> None:
    cloud = AgentCloud(folder).start(agents=2)
    hosts = {f"node{number}" for number in range(1, HOSTS + 1)}
    assert cloud.up() == hosts
    assert cloud.agents() == {"agent1": ["node1", "node2", "node3"], "agent2": ["node4", "node5"]}
    cloud.boot(HOSTS)
    wait_until(lambda: set(cloud.servers().values()) == hosts, "a server is on every host", at_most_s=60)
    before = cloud.servers()
    assert {"first start"} == {how for uuid in before for how in cloud.boots(uuid)}
    assert (folder / "agents" / "agent1.conf").stat().st_mode & 0o777 == 0o600
    for name in ("agent1.conf", "agent1.hosts.conf"):
        text = (folder / "agents" / name).read_text()
        assert not [word for word in ("sqlite", "auth_url", "[keystone") if word in text]
    assert cloud.supervisor.signal(signal.SIGKILL) == -signal.SIGKILL  # nothing is left behind
    cloud.supervisor.stop()

    cloud = AgentCloud(folder).start(agents=1)
    assert cloud.agents() == {"agent1": sorted(hosts)}
    assert cloud.up() == hosts
    assert cloud.servers() == before
    assert cloud.supervisor.signal(signal.SIGTERM) == 0
    cloud.supervisor.stop()
