# SPDX-License-Identifier: Apache-2.0
"""The release before runs on the schema of this release, beside it: migrations only expand what it uses.

Its code comes from the history of this repository. A copy of the sources without this history fails the tests.
"""

import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from kilonova.cli.wiring.control import image_id
from kilonova.db import schema
from kilonova.db.database import Database
from support.database_servers import DatabaseServer
from support.served import Served
from support.waiting import wait_until

ROOT = Path(__file__).parents[2]
#: The last commit of the release before. It advances with each release, and ``schema.WORKS_SINCE`` with it.
COMMIT = "8924920daf6529fb5cb90053c8af6a337114a29a"


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source folder of the release before."""
    asked = ["git", "-C", str(ROOT), "archive", COMMIT, "src"]
    archive = subprocess.run(asked, capture_output=True, check=False)
    assert archive.returncode == 0, f"the history lacks the release before: {archive.stderr.decode()}"
    folder = tmp_path_factory.mktemp("before")
    with tarfile.open(fileobj=BytesIO(archive.stdout)) as files:
        files.extractall(folder, filter="data")
    return folder / "src"


@pytest.fixture
def address(database_servers: dict[str, DatabaseServer]) -> Iterator[str]:
    server = database_servers["postgresql"]
    server.create("rolling")
    yield server.url("rolling")
    server.drop("rolling")


class Release:
    """``kilonova api`` of a release, with two hosts of its own. ``code``: its source; None for this release."""

    def __init__(self, folder: Path, name: str, address: str, code: Path | None = None) -> None:
        folder.mkdir()
        hosts = f"images: [{{name: cirros}}]\nhosts: [{name}1, {name}2]\n"
        self.served = Served(folder, hosts, connection=address)
        self.served.is_forked = code is None  # a forked process has the modules of this release
        self.environment = {} if code is None else {"PYTHONPATH": str(code)}

    def upgrade(self) -> None:
        """Upgrade the schema of the database to that of the release."""
        command = [sys.executable, "-m", "kilonova", "db", "upgrade", "--config-file", str(self.served.config)]
        subprocess.run(command, check=True, capture_output=True, timeout=120, env={**os.environ, **self.environment})

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        status, answer = self.served.call(method, f"/compute/v2.1{path}", body)
        assert status < 300, (method, path, answer)
        return answer

    def boot(self, name: str, host: str) -> str:
        """Create a server on a host of either release, and wait until it is active."""
        server = {"name": name, "imageRef": image_id("cirros"), "flavorRef": "1", "networks": "none"}
        made = self.ask("POST", "/servers", {"server": {**server, "availability_zone": f"nova:{host}"}})
        self.wait(made["server"]["id"], "ACTIVE")
        return str(made["server"]["id"])

    def act(self, uuid: str, action: str, status: str) -> None:
        self.ask("POST", f"/servers/{uuid}/action", {action: None})
        self.wait(uuid, status)

    def wait(self, uuid: str, status: str) -> None:
        def has_status() -> bool:
            shown = self.ask("GET", f"/servers/{uuid}")["server"]
            assert shown["status"] != "ERROR", shown
            return bool(shown["status"] == status)

        wait_until(has_status, f"server {uuid} to be {status}", at_most_s=60, every_s=0.05)

    def names(self) -> set[str]:
        return {server["name"] for server in self.ask("GET", "/servers?all_tenants=1")["servers"]}


def revision(address: str) -> str | None:
    database = Database(address)
    try:
        return schema.current(database)
    finally:
        database.close()


def test_the_release_before_works_on_the_new_schema_and_beside_the_new_release(
    code: Path, address: str, tmp_path: Path
) -> None:
    before, after = Release(tmp_path / "before", "old", address, code), Release(tmp_path / "after", "new", address)
    before.upgrade()
    assert revision(address) == schema.WORKS_SINCE
    before.served.start(**before.environment)
    try:
        flavor = {"name": "small", "id": "1", "ram": 64, "vcpus": 1, "disk": 1}
        before.ask("POST", "/flavors", {"flavor": flavor})
        first = before.boot("first", "old1")
        after.upgrade()
        assert revision(address) == schema.head()
        second = before.boot("second", "old2")
        before.act(first, "os-stop", "SHUTOFF")
        after.served.start()
        try:
            third, fourth = after.boot("third", "new1"), after.boot("fourth", "old1")
            fifth = before.boot("fifth", "new2")
            assert before.names() == after.names() == {"first", "second", "third", "fourth", "fifth"}
            after.act(first, "os-start", "ACTIVE")
            before.act(third, "os-stop", "SHUTOFF")
            for one, uuid in ((before, third), (before, fourth), (after, first), (after, second), (after, fifth)):
                one.ask("DELETE", f"/servers/{uuid}")
            wait_until(
                lambda: not before.names() | after.names(), "all servers to be deleted", at_most_s=60, every_s=0.05
            )
        finally:
            after.served.stop()
    finally:
        before.served.stop()
    for release in (before, after):
        assert "Traceback" not in release.served.log.read_text()
