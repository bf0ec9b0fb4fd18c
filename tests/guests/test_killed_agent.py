# SPDX-License-Identifier: Apache-2.0
"""Kill of an agent process with real guests on a real broker, while its control process runs on."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kilonova.db import enrolment
from support.agent_processes import AgentProcess, url_of
from support.broker import CONTROL, Broker
from support.libvirt_node import LibvirtNode
from support.real_cloud import HOST, IGNORES, RealCloud, options_of, real_cloud
from support.waiting import wait_until

_OPTIONS = "[DEFAULT]\ntransport_url = {url}\nrpc_response_timeout = 1\n[conductor]\nlease_time = 2\n"


class Tasks(threading.Thread):
    """Thread that records the task states of a server, in order."""

    def __init__(self, cloud: RealCloud, uuid: str) -> None:
        super().__init__(daemon=True)
        self._cloud, self._uuid = cloud, uuid
        self._end = threading.Event()
        self.seen: list[str | None] = []

    def run(self) -> None:
        while not self._end.wait(0.005):
            task = self._cloud.server(self._uuid)["OS-EXT-STS:task_state"]
            if self.seen[-1:] != [task]:
                self.seen.append(task)

    def end(self) -> list[str | None]:
        self._end.set()
        self.join()
        return self.seen


@pytest.fixture
def cloud(libvirt_node: LibvirtNode, sqlite_template: Path, tmp_path: Path) -> Iterator[RealCloud]:
    with real_cloud(libvirt_node, sqlite_template, tmp_path) as made:
        yield made


@pytest.fixture
def agent(broker: Broker, cloud: RealCloud) -> Iterator[AgentProcess]:
    """Agent process of a running cloud, not started."""
    name = broker.new_agent()
    cloud.start(_OPTIONS.format(url=url_of(broker, CONTROL)), serves_host=False)
    cloud.control.process.database.write(lambda tx: enrolment.enrol(tx, name, [HOST]))
    cloud.control.add_flavor(ram=64)
    made = AgentProcess(cloud.folder / "agent", url_of(broker, name), options_of(cloud.node, cloud.instances))
    yield made
    made.stop()


def test_one_that_starts_before_libvirtd_waits_for_it(agent: AgentProcess, cloud: RealCloud) -> None:
    cloud.node.kill()
    agent.start().until_told("The session with the control process failed.*hypervisor does not answer")
    cloud.node.start()
    agent.until_in_session()
    cloud.remove(cloud.boot())
    assert cloud.left() == []


def test_between_shutdown_and_start_of_a_soft_reboot(agent: AgentProcess, cloud: RealCloud) -> None:
    agent.start().until_in_session()
    uuid = cloud.boot(image=IGNORES)  # this guest ignores the shutdown request until the test ends it
    cloud.act(uuid, "reboot", type="SOFT")
    wait_until(lambda: cloud.server(uuid)["OS-EXT-STS:task_state"] == "reboot_started", "the reboot to begin")
    agent.kill()
    cloud.press_q(uuid)
    wait_until(lambda: not cloud.domain(uuid).isActive(), "the guest to shut down")
    assert cloud.server(uuid)["OS-EXT-STS:task_state"] == "reboot_started"
    tasks = Tasks(cloud, uuid)
    tasks.start()
    agent.start()
    cloud.until(uuid, "ACTIVE", at_most_s=60)
    cloud.until_booted(uuid, 2)
    seen = [
        task for task in tasks.end() if task != "reboot_started_hard"
    ]  # this state is too short to be observed reliably
    assert seen == ["reboot_started", "reboot_pending_hard", None]
    cloud.remove(uuid)
    assert cloud.left() == []
