# SPDX-License-Identifier: Apache-2.0
"""Cloud whose simulated hosts move into agent processes during its upgrade."""

from pathlib import Path
from typing import Any

import yaml

from kilonova.db import enrolment
from kilonova.scenario.load import load_scenario
from support.agent_processes import AgentProcess, url_of
from support.broker import CONTROL, Broker
from upgrades.upgrade_clouds import OnPostgreSQL

#: Broker users of agents that are already enrolled in archived databases; every test broker has them.
ARCHIVED = ("agent298", "agent299")


class OfAgents(OnPostgreSQL):
    """``kilonova api`` without hosts, and two ``kilonova compute`` processes that share the hosts of the scenario.

    ``names``: of the agents; agents without given names are new and get enrolled.
    """

    name = "agents"

    def __init__(
        self, folder: Path, scenario: Path, url: str, broker: Broker, names: tuple[str, str] | None = None
    ) -> None:
        super().__init__(folder, scenario, url)
        self._broker = broker
        hosts = [host.name for host in load_scenario(scenario).hosts]
        first, second = names or (broker.new_agent(), broker.new_agent())
        self._shares = {first: hosts[::2], second: hosts[1::2]}
        self._places = folder
        self._agents: list[AgentProcess] = []

    def start(self, scenario: Path | None = None, more: str = "") -> None:
        """Upgrade the database, enrol the agents, and start all processes."""
        self.upgrade(scenario)
        database = self.open()
        with database.read() as connection:
            enrolled = {agent.name for agent in enrolment.list_all(connection)}
        for name, served in self._shares.items():
            if name not in enrolled:
                database.write(lambda tx, name=name, served=served: enrolment.enrol(tx, name, served))  # type: ignore[misc]
        database.close()
        super().start(scenario, f"{more}[DEFAULT]\ntransport_url = {url_of(self._broker, CONTROL)}\n")
        self._agents = [
            AgentProcess(
                self._places / name,
                url_of(self._broker, name),
                f"scenario = {scenario or self.scenario}\nhost_names = {', '.join(served)}\n",
                state_dir=self.folder / "hypervisors",
            )
            for name, served in self._shares.items()
        ]
        for agent in self._agents:
            agent.log.unlink(missing_ok=True)
            agent.start()
        for agent in self._agents:
            agent.until_in_session()

    def kill(self) -> None:
        for agent in self._agents:
            agent.stop()
        super().kill()

    def stop(self) -> None:
        for agent in self._agents:
            agent.stop()
        super().stop()

    def _told(self, scenario: Path) -> str:
        told: dict[str, Any] = yaml.safe_load(super()._told(scenario))
        return yaml.safe_dump({**told, "hosts": []})
