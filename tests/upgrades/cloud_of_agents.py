# SPDX-License-Identifier: Apache-2.0
"""A cloud whose hosts come to be in processes of their own when it is upgraded."""

from pathlib import Path
from typing import Any

import yaml
from upgrade_clouds import OnPostgreSQL

from kilonova.db import enrolment
from kilonova.scenario.load import load_scenario
from support.agent_processes import AgentProcess, url_of
from support.broker import CONTROL, Broker


class OfAgents(OnPostgreSQL):
    """``kilonova api`` without hosts, and two ``kilonova compute`` that have those of the scenario."""

    name = "agents"

    def __init__(self, folder: Path, scenario: Path, url: str, broker: Broker) -> None:
        super().__init__(folder, scenario, url)
        self._broker = broker
        hosts = [host.name for host in load_scenario(scenario).hosts]
        self._shares = {broker.new_agent(): hosts[::2], broker.new_agent(): hosts[1::2]}
        self._agents = [
            AgentProcess(
                folder / name,
                url_of(broker, name),
                f"scenario = {scenario}\nhost_names = {', '.join(served)}\n",
                state_dir=self.folder / "hypervisors",
            )
            for name, served in self._shares.items()
        ]

    def start(self, scenario: Path | None = None, more: str = "") -> None:
        """Upgrade, enrol the agents, and start everything at once."""
        self.upgrade(scenario)
        database = self.open()
        for name, served in self._shares.items():
            database.write(lambda tx, name=name, served=served: enrolment.enrol(tx, name, served))  # type: ignore[misc]
        database.close()
        super().start(scenario, f"{more}[DEFAULT]\ntransport_url = {url_of(self._broker, CONTROL)}\n")
        for agent in self._agents:
            agent.start()
        for agent in self._agents:
            agent.until_in_session()

    def stop(self) -> None:
        for agent in self._agents:
            agent.stop()
        super().stop()

    def _told(self, scenario: Path) -> str:
        told: dict[str, Any] = yaml.safe_load(super()._told(scenario))
        return yaml.safe_dump({**told, "hosts": []})
