# SPDX-License-Identifier: Apache-2.0
"""Whole clouds, each started by `kilonova up --scenario` on free ports in a folder of its own."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from support.stock_cloud import StockCloud
from support.supervisor import Supervisor


@dataclass
class Clouds:
    """At most one cloud at a time, kept for as long as tests ask for the same scenario."""

    folders: pytest.TempPathFactory
    kind: tuple[str, str] = ("", "")
    supervisor: Supervisor | None = None

    def of(self, scenario: str, options: str = "") -> StockCloud:
        """Return the cloud of a scenario, with the rules' walk in the log of its control process.

        ``options``: lines of its configuration file, in [DEFAULT].
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
    """The cloud of the scenario that the test class names; classes of the same one in a row share it.

    A class may name ``options``, too.
    """
    return clouds.of(request.cls.scenario, getattr(request.cls, "options", ""))
