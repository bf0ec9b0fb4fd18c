# SPDX-License-Identifier: Apache-2.0
"""Whole control process inside the test process: noauth2, SQLite, simulated hosts, WSGI calls without a network."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from kilonova.cli.wiring.control import ControlProcess, image_id, start_control_process
from kilonova.cli.wiring.core import Parts
from kilonova.config.load import load_settings
from kilonova.config.settings import Settings
from kilonova.db.core import tables as t
from support.api_client import Answer, Client
from support.fake_neutron import FakeNeutron
from support.waiting import wait_until_idle
from support.world import check_world, guests_on_disk

IMAGE = image_id("cirros")
#: Tokens of the clients of :class:`Control`, which the network service knows, too.
TOKENS = ("admin", "alice:wonder", "bob:wonder", "mallory:elsewhere")
#: Configuration of tests that do not test quotas: no quota limits.
UNLIMITED = "[quota]\ninstances = -1\ncores = -1\nram = -1\n"
SCENARIO = """
images: [{name: cirros}]
hosts:
  - {name: node1, vcpus: 8, memory_mib: 16384}
  - {name: node2, vcpus: 8, memory_mib: 16384}
"""


def settings_of(folder: Path, scenario: str = SCENARIO, more: str = "", database_url: str = "") -> Settings:
    url = database_url or f"sqlite:///{folder / 'kilonova.db'}"
    (folder / "scenario.yaml").write_text(scenario)
    (folder / "kilonova.conf").write_text(
        f"[api]\nauth_strategy = noauth2\nmax_limit = 5\n[database]\nconnection = {url}\n"
        f"[fake]\nstate_dir = {folder / 'hypervisors'}\nscenario = {folder / 'scenario.yaml'}\n{UNLIMITED}{more}"
    )
    return load_settings([str(folder / "kilonova.conf")])


@dataclass
class Control:
    """Running control process with helpers for frequent requests."""

    folder: Path
    process: ControlProcess
    network: FakeNeutron | None = None

    @property
    def neutron(self) -> FakeNeutron:
        """The network service, of a control process that has one."""
        assert self.network is not None
        return self.network

    @property
    def admin(self) -> Client:
        return Client(self.process.application, version="2.100")

    @property
    def member(self) -> Client:
        return Client(self.process.application, "alice:wonder", "2.100")

    def as_user(self, user: str, project: str) -> Client:
        return Client(self.process.application, f"{user}:{project}", "2.100")

    @property
    def stranger(self) -> Client:
        return Client(self.process.application, "mallory:elsewhere", "2.100")

    @property
    def placement(self) -> Client:
        return Client(self.process.application, version="1.39", api="placement")

    @property
    def operator(self) -> Client:
        return Client(self.process.application, api="operator")

    def add_flavor(self, flavor_id: str = "1", **facts: Any) -> None:
        flavor = {"name": f"flavor{flavor_id}", "id": flavor_id, "ram": 512, "vcpus": 1, "disk": 1, **facts}
        assert self.admin.post("/flavors", {"flavor": flavor}).status == 200

    def ask(self, client: Client | None = None, hints: Any = None, **changed: Any) -> Answer:
        """Send POST /servers; a field that is None is omitted."""
        asked = {"name": "vm", "imageRef": IMAGE, "flavorRef": "1", "networks": "auto", **changed}
        server = {name: value for name, value in asked.items() if value is not None}
        body = {"server": server} | ({"os:scheduler_hints": hints} if hints is not None else {})
        return (client or self.member).post("/servers", body)

    def boot(self, client: Client | None = None, hints: Any = None, **changed: Any) -> dict[str, Any]:
        """Create a server, wait until it settles, and return the administrator's view of it."""
        answer = self.ask(client, hints, **changed)
        assert answer.status == 202, answer.body
        self.settle()
        shown: dict[str, Any] = self.admin.get(f"/servers/{answer.body['server']['id']}").body["server"]
        return shown

    def settle(self) -> None:
        """Wait until no workflow is running."""
        wait_until_idle(self.process.database)

    def settled_status(self, uuid: str) -> str:
        """Return the status of a server once no workflow is running."""
        self.settle()
        status: str = self.member.get(f"/servers/{uuid}").body["server"]["status"]
        return status

    def check(self) -> dict[str, str]:
        self.settle()
        with self.process.database.read() as connection:
            return check_world(connection, guests_on_disk(self.folder / "hypervisors"))

    def everything(self) -> dict[str, list[str]]:
        """Return all rows of all tables that a request may change."""
        passing = {"change_log", "change_counter", "processes", "decisions", "rosters"}
        passing |= {"circumstances", "checkpoints", "checkpoint_parts"}
        with self.process.database.read() as connection:
            return {
                table.name: sorted(map(repr, connection.execute(sa.select(table))))
                for table in t.metadata.sorted_tables
                if table.name not in passing
            }


def start_control(
    folder: Path,
    *,
    parts: Parts | None = None,
    decision_lock: Any = None,
    network: FakeNeutron | None = None,
    **options: Any,
) -> Control:
    parts = parts or Parts(decision_lock=decision_lock)
    if network is not None:
        parts = replace(parts, network=parts.network or network)
        for token in TOKENS:
            network.user(token, token.rpartition(":")[2], is_admin=token == "admin")
    return Control(folder, start_control_process(settings_of(folder, **options), parts), network)


#: Type of the fixtures ``new_control`` and ``new_shared_control``: takes the options of :func:`start_control`.
NewControl = Callable[..., Control]


@contextmanager
def new_controls(template: Path, folder: Path) -> Iterator[NewControl]:
    """Start control processes on request, each with a database of its own, and stop all of them at the end.

    ``template``: an upgraded database to copy. Each process has one flavor unless called with ``flavor=False``.
    """
    with ExitStack() as started:

        def start(*, flavor: bool = True, **options: Any) -> Control:
            own = folder / f"control{len(list(folder.glob('control*')))}"
            own.mkdir()
            shutil.copy(template, own / "kilonova.db")
            control = start_control(own, **options)
            started.callback(control.process.close)
            if flavor:
                control.add_flavor()
            return control

        yield start
