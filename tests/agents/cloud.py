# SPDX-License-Identifier: Apache-2.0
"""A control process in the test's own, and agents in processes of theirs, over a real broker."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kilonova.db import enrolment
from kilonova.db.database import Database
from support.agent_processes import AgentProcess, url_of
from support.broker import CONTROL, Broker
from support.control import Control, start_control
from support.waiting import wait_until, wait_until_idle
from support.world import check_guests, check_world, guests_on_disk

LEASE_S = 2.0


class AgentCloud:
    """``agents``: for each process, the names of its hosts. ``hosts``: how they are shaped, as in a scenario.

    ``more``: follows the options of the control processes.
    """

    def __init__(
        self,
        folder: Path,
        database_url: str,
        broker: Broker,
        agents: Sequence[tuple[str, ...]],
        *,
        hosts: str = "vcpus: 16, memory_mib: 32768",
        lease_s: float = LEASE_S,
        more: str = "",
    ) -> None:
        self.folder = folder
        self._lease_s = lease_s
        self._more = more
        self.broker = broker
        self.names = tuple(broker.new_agent() for _ in agents)
        scenario = folder / "hosts.yaml"
        names = [host for names in agents for host in names]
        scenario.write_text("hosts:\n" + "".join(f"  - {{name: {name}, {hosts}}}\n" for name in names))
        database = Database(database_url)
        for name, served in zip(self.names, agents, strict=True):
            database.write(lambda tx, name=name, served=served: enrolment.enrol(tx, name, served))  # type: ignore[misc]
        database.close()
        self.controls: list[Control] = []
        self._database_url = database_url
        self.control = self.start_control()
        self.agents = [
            AgentProcess(
                folder / name,
                url_of(broker, name),
                f"scenario = {scenario}\nhost_names = {', '.join(served)}\n",
                state_dir=folder / "hypervisors",
            )
            for name, served in zip(self.names, agents, strict=True)
        ]

    def start(self) -> "AgentCloud":
        """Start the agent processes, and make what servers need."""
        for agent in self.agents:
            agent.start()
        for agent in self.agents:
            agent.until_in_session()
        self.control.add_flavor()
        self.control.add_flavor("2", ram=1024, vcpus=2)
        return self

    def start_control(self) -> Control:
        """Start another control process."""
        folder = self.folder / f"control{len(self.controls)}"
        folder.mkdir()
        started = start_control(
            folder,
            scenario="images: [{name: cirros}]\nhosts: []\n",
            database_url=self._database_url,
            more=f"[DEFAULT]\ntransport_url = {url_of(self.broker, CONTROL)}\nrpc_response_timeout = 1\n"
            f"[conductor]\nlease_time = {self._lease_s}\n{self._more}",
        )
        self.controls.append(started)
        return started

    def act(self, uuid: str, action: dict[str, Any], status: int = 202) -> dict[str, Any]:
        """Do something with a server as an administrator, wait until it is done, and show the server."""
        answer = self.control.admin.post(f"/servers/{uuid}/action", action)
        assert answer.status == status, answer.body
        self.settle()
        return self.show(uuid)

    def settle(self) -> None:
        """Wait until nothing is under way, on a machine with other work to do as well."""
        wait_until_idle(self.control.process.database, at_most_s=90)

    def show(self, uuid: str) -> dict[str, Any]:
        shown: dict[str, Any] = self.control.admin.get(f"/servers/{uuid}").body["server"]
        return shown

    def until(self, uuid: str, status: str) -> None:
        wait_until(lambda: self.show(uuid)["status"] == status, f"{uuid} is {status}", at_most_s=60)

    def check(self) -> dict[str, str]:
        """The world is at rest and in order; each server has one guest. Returns uuid → vm_state."""
        self.settle()
        hypervisors = self.folder / "hypervisors"
        with self.control.process.database.read() as connection:
            states = check_world(connection, guests_on_disk(hypervisors))
            check_guests(connection, hypervisors)
        return states

    def check_soon(self, *, at_most_s: float = 30) -> dict[str, str]:
        """Repeat :meth:`check` until it passes: an order of an ended session may make a guest after the report of its
        host, and the guest is removed when the late reply arrives.
        """
        deadline = time.monotonic() + at_most_s
        while True:
            try:
                return self.check()
            except AssertionError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def stop(self) -> None:
        for agent in self.agents:
            agent.stop()
        for control in self.controls:
            control.process.close()
