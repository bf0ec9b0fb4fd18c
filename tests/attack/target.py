# SPDX-License-Identifier: Apache-2.0
"""Attacked cloud: one control process on SQLite, or two on one PostgreSQL."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

from kilonova.cli.wiring.control import image_id
from kilonova.db import schema
from kilonova.db.database import Database
from support.database_servers import PostgreSQL, running
from support.served import Served

IMAGE = image_id("cirros")
ATTACKER, BYSTANDER, ADMIN = "mallory:dark", "alice:wonder", "admin"
#: Names of flavors: one that fits every host, one that fits none.
TINY, NOWHERE = "tiny", "nowhere"
_HOSTS = 40
_FLAVORS = {
    TINY: {"ram": 64, "vcpus": 1, "disk": 1},
    NOWHERE: {"ram": 64, "vcpus": 1, "disk": 1_000_000},
}


@dataclass(frozen=True)
class Target:
    """Addresses of the cloud, for processes that attack or use it. ``ports``: one for each control process."""

    ports: tuple[int, ...]
    log: str
    folder: str

    @property
    def port(self) -> int:
        return self.ports[0]

    def as_json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> "Target":
        known = json.loads(text)
        return Target(tuple(known["ports"]), known["log"], known["folder"])


@dataclass
class RunningCloud:
    """Running processes of an attacked cloud."""

    target: Target
    served: list[Served]

    def memory_mib(self) -> float:
        """Memory of all control processes together, in MiB."""
        return sum(each.memory_info().rss for one in self.served for each in one.processes()) / 2**20

    def disk_mib(self) -> float:
        """Size of the logs and SQLite files, in MiB."""
        files = (file for one in self.served for file in one.folder.rglob("*") if file.is_file())
        return sum(file.stat().st_size for file in files) / 2**20

    def is_whole(self) -> bool:
        """True if every process still runs."""
        try:
            return all(each.is_running() for one in self.served for each in one.processes())
        except psutil.NoSuchProcess:
            return False


def _scenario(number: int) -> str:
    host = f"{{name: cell{number}-node, count: {_HOSTS}, vcpus: 64, memory_mib: 262144, disk_gib: 4000}}"
    return f"hosts: [{host}]\nimages: [{{name: cirros}}]\n"


@contextmanager
def running_cloud(database: str, folder: Path, more: str = "") -> Iterator[RunningCloud]:
    """Start the cloud with its flavors. ``database``: sqlite or postgresql."""
    with ExitStack() as stack:
        options: dict[str, str] = {"more": more}
        if database == "postgresql":
            server = PostgreSQL(durable=True)
            stack.enter_context(running(server))
            server.create("kilonova")
            opened = Database(server.url("kilonova"))
            schema.upgrade(opened)
            opened.close()
            options["connection"] = server.url("kilonova")
        served = []
        for number in range(2 if database == "postgresql" else 1):
            (folder / str(number)).mkdir()
            one = Served(folder / str(number), _scenario(number), **options)
            one.is_forked = False
            stack.callback(one.stop)
            one.start()
            served.append(one)
        _fill(served[0])
        target = Target(tuple(one.port for one in served), str(served[0].log), str(served[0].folder))
        yield RunningCloud(target, served)


def _fill(served: Served) -> None:
    for name, size in _FLAVORS.items():
        flavor: dict[str, Any] = {"name": name, "id": name, **size}
        status, body = served.call("POST", "/compute/v2.1/flavors", {"flavor": flavor})
        assert status == 200, body
