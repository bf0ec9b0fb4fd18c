# SPDX-License-Identifier: Apache-2.0
"""Control process for random requests, with a snapshot of the state that a refused request must not change."""

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from kilonova.cli.wiring.control import ControlProcess, image_id, start_control_process
from kilonova.config.load import load_settings
from kilonova.db.core import tables as t
from support.api_client import Answer, send
from support.waiting import wait_until_idle

IMAGE = image_id("cirros")
ROOT, CHILD, SHARED, NEW = (f"0000000{number}-1111-4111-8111-111111111111" for number in (1, 2, 3, 4))
CONSUMER = "0000000a-1111-4111-8111-111111111111"
AGGREGATE = "0000000b-1111-4111-8111-111111111111"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHE5S1eWoSlVXPp1v9oGoxSDfJXvZmZmJ8DqzJ1pYh1t user@example"
_CONFIG = """[DEFAULT]
report_interval = 3600
service_down_time = 7200
[api]
auth_strategy = noauth2
[database]
connection = sqlite:///{folder}/kilonova.db
[fake]
state_dir = {folder}/hypervisors
scenario = {folder}/scenario.yaml
[quota]
instances = -1
cores = -1
ram = -1
"""
_SCENARIO = "images: [{name: cirros}]\nhosts: 3\n"
#: Tables that change in the background, or that record requests.
_PASSING = {
    "change_log", "change_counter", "decisions", "rosters", "circumstances", "checkpoints", "checkpoint_parts",
    "workflows", "processes",
}  # fmt: skip


@dataclass
class World:
    """Control process and its resources. ``names``: placeholder in a request → the present value."""

    process: ControlProcess
    watcher: sqlite3.Connection
    names: dict[str, str] = field(default_factory=dict)
    _seen: tuple[int, Mapping[str, list[str]]] | None = None

    def send(self, method: str, path: str, raw: bytes, headers: Mapping[str, str]) -> Answer:
        """Send a request after replacing its placeholders."""
        for name, value in self.names.items():
            path = path.replace(name, value)
            raw = raw.replace(name.encode(), value.encode())
        return send(self.process.application, method, path, raw, {"Content-Length": str(len(raw)), **headers})

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request as an administrator, without checking the status."""
        family = path.split("/")[1]
        version = {"compute": "compute 2.100", "placement": "placement 1.39"}[family]
        headers = {"X-Auth-Token": "admin", "OpenStack-API-Version": version, "Content-Type": "application/json"}
        raw = b"" if body is None else json.dumps(body).encode()
        answer = self.send(method, path, raw, headers)
        return json.loads(answer.raw) if answer.raw and answer.status < 300 else None

    def replenish(self) -> None:
        """Recreate resources that requests may have deleted, and look up the values of the placeholders."""
        compute = "/compute/v2.1"
        for flavor in ("1", "2"):
            facts = {"name": f"flavor{flavor}", "id": flavor, "ram": 512, "vcpus": 1, "disk": 1}
            self.ask("POST", f"{compute}/flavors", {"flavor": facts})
        self.ask("POST", f"{compute}/os-keypairs", {"keypair": {"name": "key", "type": "ssh", "public_key": KEY}})
        self.ask("POST", f"{compute}/os-aggregates", {"aggregate": {"name": "fast", "availability_zone": None}})
        self.ask("POST", f"{compute}/os-server-groups", {"server_group": {"name": "g", "policy": "affinity"}})
        server = {"name": "vm", "imageRef": IMAGE, "flavorRef": "1", "networks": "none"}
        listed = self.ask("GET", f"{compute}/servers/detail") or {"servers": []}
        if len(listed["servers"]) > 8:
            for old in listed["servers"][4:]:
                self.ask("DELETE", f"{compute}/servers/{old['id']}")
        else:
            self.ask("POST", f"{compute}/servers", {"server": server})
        for uuid, name, parent in ((ROOT, "root", None), (CHILD, "child", ROOT), (SHARED, "shared", None)):
            body = {"uuid": uuid, "name": name, "parent_provider_uuid": parent}
            made = self.ask("POST", "/placement/resource_providers", body)
            if made is not None:
                amounts = {name: {"total": 16} for name in ("VCPU", "MEMORY_MB", "DISK_GB", "CUSTOM_A")}
                self.ask("PUT", "/placement/resource_classes/CUSTOM_A")
                body = {"inventories": amounts, "resource_provider_generation": made["generation"]}
                self.ask("PUT", f"/placement/resource_providers/{uuid}/inventories", body)
        self.ask("PUT", "/placement/traits/CUSTOM_T")
        self.settle()
        self._look_up("@server", f"{compute}/servers", "servers", "id")
        self._look_up("@group", f"{compute}/os-server-groups", "server_groups", "id")
        self._look_up("@aggregate", f"{compute}/os-aggregates", "aggregates", "id")
        self._look_up("@service", f"{compute}/os-services?binary=nova-compute", "services", "id")
        self._look_up("@hypervisor", f"{compute}/os-hypervisors", "hypervisors", "id")
        with self.process.database.read() as connection:
            self.names["@decision"] = connection.execute(sa.select(t.decisions.c.request_id)).scalars().first() or "r"

    def _look_up(self, name: str, path: str, listing: str, field_name: str) -> None:
        found = (self.ask("GET", path) or {listing: []})[listing]
        self.names[name] = str(found[0][field_name]) if found else "1"

    def settle(self) -> None:
        """Wait until no workflow is running."""
        wait_until_idle(self.process.database, every_s=0.002)

    def state(self) -> Mapping[str, list[str]]:
        """Return all rows of all tables that a request may change; cached until the next commit."""
        version = int(self.watcher.execute("PRAGMA data_version").fetchone()[0])
        if self._seen is None or self._seen[0] != version:
            self._seen = version, self._rows()
        return self._seen[1]

    def _rows(self) -> Mapping[str, list[str]]:
        with self.process.database.read() as connection:
            return {
                table.name: sorted(map(repr, connection.execute(sa.select(table))))
                for table in t.metadata.sorted_tables
                if table.name not in _PASSING
            }


def start_world(folder: Path) -> World:
    """Start the control process on the database in ``folder``."""
    (folder / "scenario.yaml").write_text(_SCENARIO)
    (folder / "kilonova.conf").write_text(_CONFIG.format(folder=folder))
    process = start_control_process(load_settings([str(folder / "kilonova.conf")]))
    world = World(process, sqlite3.connect(folder / "kilonova.db"))
    world.replenish()
    return world
