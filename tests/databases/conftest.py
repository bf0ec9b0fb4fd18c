# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kilonova.db.database import Database
from kilonova.scenario.model import SimulatedHost
from support.cell import Cell, start_cell
from support.database_servers import DatabaseServer
from support.device_cells import CONFIG
from support.manual_bus import ManualBus
from support.proxies import Proxy


@pytest.fixture
def start_machines(open_database: Callable[[], Database], tmp_path: Path) -> Callable[..., Cell]:
    """A function that starts a control process with the given hosts, whose devices it schedules."""

    def process(*hosts: SimulatedHost) -> Cell:
        folder = tmp_path / ("-".join(each.name for each in hosts) or "none")
        folder.mkdir()
        return start_cell(folder, hosts, database=open_database(), config=CONFIG, bus=ManualBus())

    return process


@pytest.fixture
def server(database_servers: dict[str, DatabaseServer], kind: str) -> DatabaseServer:
    """The server of the test's database."""
    return database_servers[kind]


@pytest.fixture
def proxy(server: DatabaseServer) -> Iterator[Proxy]:
    """A proxy in front of the server, which can break connections."""
    proxy = Proxy(server.port)
    yield proxy
    proxy.close()
