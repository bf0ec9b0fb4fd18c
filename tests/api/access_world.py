# SPDX-License-Identifier: Apache-2.0
"""A control process behind a real Keystone, and a way to use every route that there is."""

import json
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from api.access_table import NO_BODY, Access
from kilonova.api.compute import family as compute
from kilonova.api.compute.family import ComputeFamily
from kilonova.api.compute.removed import gone
from kilonova.api.http import Endpoint
from kilonova.api.operator.family import OperatorFamily
from kilonova.api.placement.family import PlacementFamily
from kilonova.cli.wiring.control import ControlProcess, image_id, start_control_process
from kilonova.config.load import load_settings
from kilonova.db import instances, server_migrations
from kilonova.model.server_migration import MigrationStatus, MigrationType, ServerMigration
from support.api_client import Answer, send
from support.identity import HOME, Identity
from support.waiting import wait_until_idle

FAMILIES = (ComputeFamily, PlacementFamily, OperatorFamily)
LATEST = {"compute": "2.104", "placement": "1.39", "operator": "1.0"}
OF_A_PROJECT = "/v2.1/{project_id}"
#: The same endpoints once more.
REPEATED = (OF_A_PROJECT, "/v2.1/os-volumes_boot")
ACTIONS = {
    template: module.ACTIONS
    for module in compute.RESOURCES
    for template in module.ROUTES
    if template.endswith("/action") and hasattr(module, "ACTIONS")
}
NOWHERE = "5b674f73-0000-4000-8000-000000000000"


def walk() -> Iterator[tuple[str, Endpoint]]:
    """All routes of all families but those that are there under another path, too, under the keys of the table."""
    for family in FAMILIES:
        for template, endpoints in family.routes.items():
            for method, endpoint in endpoints.items():
                actions = ACTIONS.get(template.removeprefix("/v2.1"), {"": endpoint})
                if not template.startswith(REPEATED):
                    for name, chosen in actions.items():
                        if chosen.handler is not gone:  # what answers 410 to everybody
                            yield f"{family.name} {method} {template} {name}".rstrip(), chosen


ENDPOINTS = dict(walk())
#: Of each route of the compute API, the methods that answer 410 to everybody.
REMOVED = {
    template: {method for method, endpoint in endpoints.items() if endpoint.handler is gone}
    for template, endpoints in ComputeFamily.routes.items()
}


@dataclass
class World:
    """A control process behind Keystone. ``values``: what stands for the parameters of routes."""

    process: ControlProcess
    identity: Identity
    values: dict[str, str]
    spares: dict[str, str] = field(default_factory=dict)

    def ask(
        self,
        route: str,
        access: Access,
        token: str | None,
        *,
        at: str | None = None,
        method: str | None = None,
        **path: str,
    ) -> Answer:
        """Use a route with what the table says of it, at the newest microversion or ``at`` another one.

        ``method``: another one than the route's, without a body.
        """
        family, own, template, *_ = route.split()
        method = method or own
        endpoint = ENDPOINTS[route]
        for name in re.findall(r"{(\w+)}", template):
            value = {**self.values, **(access.path or {}), **path}[name]
            template = template.replace(f"{{{name}}}", self.spare(value) if value.startswith("@") else value)
        version = at or endpoint.until or LATEST[family]
        headers = {"OpenStack-API-Version": f"{family} {version}"}
        body = access.body if access.body is not None or method not in {"POST", "PUT"} else {}
        body = body if method == own else None
        if token is not None:
            headers["X-Auth-Token"] = token
        raw = b"" if body is None or body == NO_BODY else json.dumps(body).encode()
        if raw:
            headers |= {"Content-Type": "application/json", "Content-Length": str(len(raw))}
        query = access.query.replace("@home", self.identity.projects[HOME])
        answer = send(self.process.application, method, f"/{family}{template}{query}", raw, headers)
        if method != own:
            return answer
        if answer.status < 300 and (method == "DELETE" or route.endswith("forceDelete")):
            self.spares.clear()
        return answer

    def spare(self, kind: str) -> str:
        """Return something that may be destroyed: the last one again as long as it was not."""
        if kind not in self.spares:
            self.spares[kind] = _SPARES[kind](self)
        return self.spares[kind]

    def admin(self, method: str, path: str, body: Any = None) -> Any:
        """Ask as the administrator, in the project ``home``."""
        raw = b"" if body is None else json.dumps(body).encode()
        headers = {"X-Auth-Token": self.identity.tokens["admin", HOME], "OpenStack-API-Version": "compute 2.100"}
        if raw:
            headers |= {"Content-Type": "application/json", "Content-Length": str(len(raw))}
        answer = send(self.process.application, method, f"/compute/v2.1{path}", raw, headers)
        assert answer.status < 300, answer.body
        return answer.body

    def new_server(self) -> str:
        server = {"name": "vm", "imageRef": image_id("cirros"), "flavorRef": "1", "networks": "none"}
        return str(self.admin("POST", "/servers", {"server": server})["server"]["id"])

    def new_migration(self, server_id: str) -> int:
        """Write the row of a live migration that runs, without running one; return its number."""
        database = self.process.database
        with database.read() as connection:
            server = instances.get(connection, server_id)
        row = ServerMigration(
            uuid=NOWHERE,
            instance_uuid=server_id,
            migration_type=MigrationType.LIVE_MIGRATION,
            status=MigrationStatus.RUNNING,
            source_host=server.host or "",
            source_node=server.node or "",
            old_flavor=server.flavor,
            new_flavor=server.flavor,
            request_id="req-migration",
        )
        return database.write(lambda tx: server_migrations.insert(tx, row)).id

    def new_group(self) -> str:
        group = {"server_group": {"name": "passing", "policy": "affinity"}}
        return str(self.admin("POST", "/os-server-groups", group)["server_group"]["id"])

    def _make_active(self) -> None:
        """Bring the server that lasts back to a state in which it can be changed, whatever was done to it before."""
        wait_until_idle(self.process.database)
        self.admin("POST", f"/servers/{self.values['server_id']}/action", {"os-resetState": {"state": "active"}})

    def new_item(self) -> str:
        self._make_active()
        self.admin("POST", f"/servers/{self.values['server_id']}/metadata", {"metadata": {"a": "b"}})
        return "a"

    def new_tag(self) -> str:
        self._make_active()
        self.admin("PUT", f"/servers/{self.values['server_id']}/tags", {"tags": ["t"]})
        return "t"


_SPARES: Mapping[str, Callable[[World], str]] = {
    "@new_server": World.new_server,
    "@locked_server": World.new_server,
    "@new_group": World.new_group,
    "@item": World.new_item,
    "@tag": World.new_tag,
}


@contextmanager
def start_world(
    folder: Path,
    template: Path,
    identity: Identity,
    more: str = "",
    scenario: str = "images: [{name: cirros}]\nhosts: 1\n",
) -> Iterator[World]:
    """Run a control process behind Keystone. ``more`` follows the options of ``[keystone_authtoken]``."""
    shutil.copy(template, folder / "kilonova.db")
    (folder / "scenario.yaml").write_text(scenario)
    (folder / "kilonova.conf").write_text(
        f"[api]\nauth_strategy = keystone\n[database]\nconnection = sqlite:///{folder}/kilonova.db\n"
        f"[fake]\nstate_dir = {folder}/hypervisors\nscenario = {folder}/scenario.yaml\n"
        f"{identity.section}{more}"
    )
    process = start_control_process(load_settings([str(folder / "kilonova.conf")]))
    try:
        started = World(process, identity, {})
        started.values |= _furnish(started)
        yield started
        wait_until_idle(process.database)
    finally:
        process.close()


def _furnish(world: World) -> Mapping[str, str]:
    world.admin("POST", "/flavors", {"flavor": {"name": "small", "id": "1", "ram": 64, "vcpus": 1, "disk": 0}})
    world.admin("POST", "/flavors/1/os-extra_specs", {"extra_specs": {"a": "b"}})
    group = world.admin("POST", "/os-server-groups", {"server_group": {"name": "lasting", "policy": "affinity"}})
    server = world.new_server()
    wait_until_idle(world.process.database)
    return {
        "server_id": server,
        "request_id": world.admin("GET", f"/servers/{server}/os-instance-actions")["instanceActions"][0]["request_id"],
        "migration_id": str(world.new_migration(server)),
        "server_group_id": group["server_group"]["id"],
        "flavor_id": "1",
        "key": "a",
        "tag": "t",
        "port_id": NOWHERE,
        "volume_id": NOWHERE,
        "snapshot_id": NOWHERE,
        "share_id": NOWHERE,
        "console_token": NOWHERE,
        "network": "private",
        "aggregate_id": "999999",
        "hypervisor_id": NOWHERE,
        "service_id": NOWHERE,
        "keypair_name": "key",
        "quota_project_id": world.identity.projects[HOME],
        "class_name": "default",
        "alias": "os-hosts",
        "image_id": image_id("cirros"),
        "host_name": "gone",
        "before": "2026-01-01 00:00:00",
        "usage_project_id": world.identity.projects[HOME],
        "absent_id": NOWHERE,
        "network_id": NOWHERE,
        "floating_ip_id": NOWHERE,
        "security_group_id": NOWHERE,
        "security_group_rule_id": NOWHERE,
        "uuid": NOWHERE,
        "consumer_uuid": NOWHERE,
        "resource_class": "VCPU",
        "name": "CUSTOMNOWHERE",
    }
