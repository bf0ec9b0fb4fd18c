# SPDX-License-Identifier: Apache-2.0
"""No tenant learns the name of a host: not from any route, at any microversion, with any role but admin's.

Not from servers that are well, nor from one that failed on its host; neither in a body nor in a header. Methods that a
route does not have say nothing either, and change nothing.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from api.access_table import ADMIN, ANY, ROUTES, Access
from api.access_world import ENDPOINTS, REMOVED, World, start_world
from api.test_access_across_projects import versions
from kilonova.api.application import METHODS
from kilonova.cli.wiring.control import image_id
from support.api_client import Answer
from support.identity import ELSEWHERE, HOME, Identity
from support.waiting import wait_until_idle

GOOD, BAD = "quiet-lupine", "loud-lupine"
_SCENARIO = f"""
images: [{{name: cirros}}]
hosts:
  - {{name: {GOOD}, vcpus: 64, memory_mib: 65536}}
  - {{name: {BAD}, vcpus: 64, memory_mib: 65536, failing_spawns: -1}}
"""
#: Roles of a project that is not the administrator's. The service role is for services, which see all of Placement.
TENANTS = sorted(ANY - ADMIN - {"service"})
READING = sorted(route for route in ROUTES if " GET " in route)
WRITING = sorted(set(ROUTES) - set(READING))


@dataclass
class Hosts:
    """A cloud of two hosts with unmistakable names. ``servers``: one that is well, and one that failed."""

    world: World
    servers: dict[str, str]

    def ask(self, route: str, role: str, scope: str, access: Access, at: str | None, server: str) -> Answer:
        """Ask as a tenant, and look for what is hidden from tenants."""
        named = {"server_id": self.servers[server]} if access.path is None else {}
        answer = self.world.ask(route, access, self.world.identity.tokens[role, scope], at=at, **named)
        told = answer.raw + repr(sorted(answer.headers.items())).encode()
        for hidden in (GOOD, BAD):
            assert hidden.encode() not in told, (route, role, at, server, answer.raw)
        assert os.uname().nodename not in answer.headers.values(), "the machine of the control process"
        return answer


@pytest.fixture(scope="module")
def hosts(identity: Identity, sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    folder = tmp_path_factory.mktemp("hosts")
    with start_world(folder, sqlite_template, identity, scenario=_SCENARIO) as world:
        made = {}
        for name, host in (("well", GOOD), ("failed", BAD)):
            asked = {"name": name, "imageRef": image_id("cirros"), "flavorRef": "1", "networks": "none"}
            body = {"server": {**asked, "availability_zone": f"nova:{host}"}}
            made[name] = world.admin("POST", "/servers", body)["server"]["id"]
        wait_until_idle(world.process.database)
        failed = world.admin("GET", f"/servers/{made['failed']}")["server"]
        assert failed["status"] == "ERROR"
        assert BAD in str(failed), "the administrator is told, so there is something to hide"
        yield Hosts(world, made)


@pytest.mark.parametrize("route", READING)
def test_no_read_names_a_host(hosts: Hosts, route: str) -> None:
    for role in TENANTS:
        for at in versions(route):
            for server in hosts.servers:
                hosts.ask(route, role, HOME, ROUTES[route], at, server)


@pytest.mark.parametrize("route", WRITING)
def test_no_write_names_a_host(hosts: Hosts, route: str) -> None:
    for role in TENANTS:
        hosts.ask(route, role, HOME, ROUTES[route], None, "failed")
        hosts.ask(route, role, ELSEWHERE, ROUTES[route], None, "failed")
    wait_until_idle(hosts.world.process.database)


@pytest.mark.parametrize("route", sorted({f"{route.split()[0]} {route.split()[2]}" for route in ROUTES}))
def test_a_method_that_a_route_does_not_have_says_and_does_nothing(hosts: Hosts, route: str) -> None:
    family, template = route.split()
    known = {each.split()[1] for each in ENDPOINTS if each.split()[0] == family and each.split()[2] == template}
    some = next(each for each in ROUTES if each.split()[0] == family and each.split()[2] == template)
    token = hosts.world.identity.tokens["manager", ELSEWHERE]
    for method in METHODS:
        if method in known or method in REMOVED.get(template, ()) or (method == "HEAD" and "GET" in known):
            continue
        answer = hosts.world.ask(some, replace(ROUTES[some], body=None), token, method=method)
        assert answer.status == 405, (method, template, answer.raw)
        assert method not in answer.headers["allow"].split(", ")


@pytest.mark.parametrize("route", [route for route in READING if "{" not in route.split()[2]])
def test_head_says_what_get_would_and_has_no_body(hosts: Hosts, route: str) -> None:
    for role in (*TENANTS, "admin"):
        token = hosts.world.identity.tokens[role, HOME]
        get, head = (hosts.world.ask(route, ROUTES[route], token, method=method) for method in ("GET", "HEAD"))
        assert head.status == get.status, (role, get, head)
