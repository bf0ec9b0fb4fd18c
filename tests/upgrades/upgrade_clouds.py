# SPDX-License-Identifier: Apache-2.0
"""Clouds without Keystone whose process can be killed and restarted, on both databases of the fixtures."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from kilonova.db.database import Database
from kilonova.scenario.load import load_scenario
from kilonova.scenario.options import conf_text
from support.database_servers import PostgreSQL
from support.served import Served, call
from support.supervisor import Supervisor

FIXTURES = Path(__file__).parents[1] / "fixtures"


class Cloud(Protocol):
    """Interface of the clouds. ``folder``: contains ``hypervisors/``; ``scenario``: defines the hosts."""

    folder: Path
    scenario: Path

    def start(self, scenario: Path | None = None, more: str = "") -> None:
        """Start on existing data. ``scenario``: replaces the cloud's own this time; ``more``: configuration lines."""

    def kill(self) -> None:
        """Kill every process of the cloud with SIGKILL."""

    def stop(self) -> None:
        """Shut the cloud down cleanly."""

    def ask(self, method: str, path: str, body: Any = None, *, token: str = "admin") -> tuple[int, Any]:
        """Send an HTTP request. Returns the status and the decoded body."""

    def open(self) -> Database:
        """Open the cloud's database."""


class DataFolder:
    """``kilonova up`` on a data folder."""

    name = "data-folder"

    def __init__(self, folder: Path, scenario: Path) -> None:
        self.folder = folder / "data"
        self.scenario = scenario
        self._settings = folder / "own.conf"

    def start(self, scenario: Path | None = None, more: str = "") -> None:
        self._settings.write_text(f"[api]\nauth_strategy = noauth2\n{more}")
        options = ("--no-companions", "--config-file", str(self._settings))
        options += ("--scenario", str(scenario or self.scenario))
        self._up = Supervisor(self.folder, arguments=options).start().until_ready()

    def kill(self) -> None:
        everyone = [self._up.process.pid, *self._up.descendants()]
        watched = [os.pidfd_open(pid) for pid in everyone]
        for descriptor in watched:
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        self._up.process.communicate()
        self._up.require_gone(watched)

    def stop(self) -> None:
        self._up.stop()

    def ask(self, method: str, path: str, body: Any = None, *, token: str = "admin") -> tuple[int, Any]:
        return call(self._up.ports[0], method, path, body, token=token)

    def open(self) -> Database:
        return Database(f"sqlite:///{self.folder / 'kilonova.db'}")


class OnPostgreSQL:
    """``kilonova api`` on a PostgreSQL database."""

    name = "postgresql"

    def __init__(self, folder: Path, scenario: Path, url: str) -> None:
        self.folder = folder / "data"
        self.folder.mkdir(exist_ok=True)
        self.scenario = scenario
        self._url = url

    def upgrade(self, scenario: Path | None = None, more: str = "") -> None:
        """Upgrade the database to the current schema."""
        scenario = scenario or self.scenario
        rules = conf_text(load_scenario(scenario).options)
        self._served = Served(self.folder, self._told(scenario), connection=self._url, rules=rules, more=more)
        command = [sys.executable, "-m", "kilonova", "db", "upgrade", "--config-file", str(self._served.config)]
        subprocess.run(command, check=True, capture_output=True, timeout=60)

    def start(self, scenario: Path | None = None, more: str = "") -> None:
        self.upgrade(scenario, more)
        self._served.start()

    def _told(self, scenario: Path) -> str:
        """Return the control process's part of the scenario's hosts."""
        return scenario.read_text(encoding="utf-8")

    def kill(self) -> None:
        self._served.kill()

    def stop(self) -> None:
        self._served.stop()

    def ask(self, method: str, path: str, body: Any = None, *, token: str = "admin") -> tuple[int, Any]:
        return self._served.call(method, path, body, token=token)

    def open(self) -> Database:
        return Database(self._url)


def program(name: str) -> Path:
    """Return the path of a PostgreSQL program."""
    return PostgreSQL._program(name)


@contextmanager
def opened(cloud: Cloud) -> Iterator[Database]:
    """Open the database of a cloud for the duration of the block."""
    database = cloud.open()
    try:
        yield database
    finally:
        database.close()
