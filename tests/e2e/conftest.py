# SPDX-License-Identifier: Apache-2.0
"""Fixtures: whole clouds, each started by `kilonova up --scenario` on free ports in a folder of its own."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from support.stock_cloud import StockCloud
from support.supervisor import Supervisor


@dataclass
class Clouds:
    """Pool of at most one cloud, kept while consecutive tests use the same scenario."""

    folders: pytest.TempPathFactory
    kind: tuple[str, str] = ("", "")
    supervisor: Supervisor | None = None

    def of(self, scenario: str, options: str = "") -> StockCloud:
        """Return the cloud of a scenario; debug logging shows the rules' decisions.

        ``options``: lines for its configuration file, in [DEFAULT].
        """
        if self.supervisor is None or (scenario, options) != self.kind:
            self.stop()
            folder = self.folders.mktemp(scenario)
            (folder / "more.conf").write_text(f"[DEFAULT]\ndebug = true\n{options}\n")
            arguments = ("--scenario", scenario, "--config-file", str(folder / "more.conf"))
            self.kind = scenario, options
            self.supervisor = Supervisor(folder / "data", arguments=arguments).start()
            self.supervisor.until_ready()
        return StockCloud(self.supervisor)

    def stop(self) -> None:
        if self.supervisor is not None:
            self.supervisor.stop()
            self.supervisor = None


@pytest.fixture(scope="session")
def clouds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clouds]:
    started = Clouds(tmp_path_factory)
    yield started
    started.stop()


@pytest.fixture(scope="class")
def stock(request: pytest.FixtureRequest, clouds: Clouds) -> StockCloud:
    """Fixture: the cloud of the scenario named by the test class, shared by consecutive classes with the same scenario.

    A class may name ``options`` too.
    """
    return clouds.of(request.cls.scenario, getattr(request.cls, "options", ""))
