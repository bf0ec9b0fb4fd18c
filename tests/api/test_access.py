# SPDX-License-Identifier: Apache-2.0
"""Every route with tokens of every role in every scope, from a real Keystone, against a table written by hand."""

import json
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from access_table import DISCOVERY, PARTICULAR, ROUTES, Access

from kilonova.api.compute import family as compute
from kilonova.api.compute.family import ComputeFamily
from kilonova.api.http import Endpoint
from kilonova.api.operator.family import OperatorFamily
from kilonova.api.placement.family import PlacementFamily
from kilonova.cli.control import ControlProcess, image_id, start_control_process
from kilonova.config import load
from support.api_client import Answer, send
from support.identity import DOMAIN, ELSEWHERE, HOME, ROLES, SYSTEM, UNSCOPED, Identity, start_identity
from support.waiting import wait_until_idle

_FAMILIES = (ComputeFamily, PlacementFamily, OperatorFamily)
_LATEST = {"compute": "2.104", "placement": "1.39", "operator": "1.0"}
_OF_A_PROJECT = "/v2.1/{project_id}"
_ACTIONS = {
    template: module.ACTIONS
    for module in compute.RESOURCES
    for template in module.ROUTES
    if template.endswith("/action")
}
_NOWHERE = "5b674f73-0000-4000-8000-000000000000"


def walk() -> Iterator[tuple[str, Endpoint]]:
    """All routes of all families but those with a project in the path, under the keys of the table."""
    for family in _FAMILIES:
        for template, endpoints in family.routes.items():
            for method, endpoint in endpoints.items():
                actions = _ACTIONS.get(template.removeprefix("/v2.1"), {"": endpoint})
                if not template.startswith(_OF_A_PROJECT):
                    yield from ((f"{family.name} {method} {template} {name}".rstrip(), endpoint) for name in actions)


ENDPOINTS = dict(walk())


@dataclass
class World:
    """A control process behind Keystone. ``values``: what stands for the parameters of routes."""

    process: ControlProcess
    identity: Identity
    values: dict[str, str]
    spares: dict[str, str] = field(default_factory=dict)

    def ask(self, route: str, access: Access, token: str | None, **path: str) -> Answer:
        family, method, template, *_ = route.split()
        endpoint = ENDPOINTS[route]
        for name in re.findall(r"{(\w+)}", template):
            value = {**self.values, **(access.path or {}), **path}[name]
            template = template.replace(f"{{{name}}}", self.spare(value) if value.startswith("@") else value)
        version = endpoint.until or _LATEST[family]
        headers = {"OpenStack-API-Version": f"{family} {version}"}
        body = access.body if access.body is not None or method not in {"POST", "PUT"} else {}
        if token is not None:
            headers["X-Auth-Token"] = token
        raw = b"" if body is None else json.dumps(body).encode()
        if raw:
            headers |= {"Content-Type": "application/json", "Content-Length": str(len(raw))}
        query = access.query.replace("@home", self.identity.projects[HOME])
        answer = send(self.process.application, method, f"/{family}{template}{query}", raw, headers)
        if method == "DELETE" and answer.status < 300:
            self.spares.clear()
        return answer

    def spare(self, kind: str) -> str:
        """Return something that may be destroyed: the last one again as long as it was not."""
        if kind not in self.spares:
            body = {"server_group": {"name": "passing", "policy": "affinity"}}
            self.spares[kind] = (
                self.new_server()
                if kind == "@new_server"
                else str(self.admin("POST", "/os-server-groups", body)["server_group"]["id"])
            )
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


@pytest.fixture(scope="module")
def world(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("access")
    shutil.copy(sqlite_template, folder / "kilonova.db")
    (folder / "scenario.yaml").write_text("images: [{name: cirros}]\nhosts: 1\n")
    with start_identity(folder / "keystone") as identity:
        (folder / "kilonova.conf").write_text(
            f"[api]\nauth_strategy = keystone\n[database]\nconnection = sqlite:///{folder}/kilonova.db\n"
            f"[fake]\nstate_dir = {folder}/hypervisors\nscenario = {folder}/scenario.yaml\n"
            f"{identity.section}"
        )
        process = start_control_process(load([str(folder / "kilonova.conf")]))
        started = World(process, identity, {})
        started.values |= _furnish(started)
        yield started
        wait_until_idle(process.database)
        process.close()


def _furnish(world: World) -> Mapping[str, str]:
    world.admin("POST", "/flavors", {"flavor": {"name": "small", "id": "1", "ram": 64, "vcpus": 1, "disk": 0}})
    world.admin("POST", "/flavors/1/os-extra_specs", {"extra_specs": {"a": "b"}})
    group = world.admin("POST", "/os-server-groups", {"server_group": {"name": "lasting", "policy": "affinity"}})
    server = world.new_server()
    wait_until_idle(world.process.database)
    return {
        "server_id": server,
        "server_group_id": group["server_group"]["id"],
        "flavor_id": "1",
        "key": "a",
        "aggregate_id": "999999",
        "hypervisor_id": _NOWHERE,
        "service_id": _NOWHERE,
        "keypair_name": "key",
        "quota_project_id": world.identity.projects[HOME],
        "class_name": "default",
        "uuid": _NOWHERE,
        "consumer_uuid": _NOWHERE,
        "resource_class": "VCPU",
        "name": "CUSTOM_NOWHERE",
    }


def test_the_table_has_every_route() -> None:
    known = {*ROUTES, *DISCOVERY}
    assert not set(ENDPOINTS) - known, "say in access_table.py who may use these"
    assert not known - set(ENDPOINTS), "these are gone"
    assert not set(ROUTES) & DISCOVERY


@pytest.mark.parametrize("route", sorted(ROUTES))
def test_a_route(world: World, route: str) -> None:
    check(world, route, ROUTES[route])


@pytest.mark.parametrize("what", sorted(PARTICULAR))
def test_what_a_route_does_for_some(world: World, what: str) -> None:
    check(world, *PARTICULAR[what])


def check(world: World, route: str, access: Access) -> None:
    """Ask with every token; compare who passes, and how the others are refused."""
    wrong: dict[tuple[str, str], Answer] = {}
    for (role, scope), token in world.identity.tokens.items():
        answer = world.ask(route, access, token)
        passes = {HOME: access.home, ELSEWHERE: access.elsewhere}.get(scope, frozenset())
        if role in passes:
            # What is looked up before policy is asked is there for these; what is looked up later need not be.
            right = answer.status < 500 and answer.status not in {401, 403, 405}
            right &= not (answer.status == 404 and access.refused_elsewhere == 404)
        else:
            right = answer.status == (access.refused_elsewhere if scope == ELSEWHERE else 403)
        if not right:
            wrong[role, scope] = answer
    assert wrong == {}
    assert world.ask(route, access, None).status == 401
    assert world.ask(route, access, "gAAAAAnonsense").status == 401


@pytest.mark.parametrize("route", sorted(route for route, access in ROUTES.items() if access.refused_elsewhere == 404))
def test_what_another_project_has_answers_like_what_nobody_has(world: World, route: str) -> None:
    (name,) = set(re.findall(r"{(\w+)}", route))
    access = ROUTES[route]
    value = {**world.values, **(access.path or {})}[name]
    real = world.spare(value) if value.startswith("@") else value
    for role in set(ROLES) - access.elsewhere:
        token = world.identity.tokens[role, ELSEWHERE]
        foreign, unknown = (
            world.ask(route, Access(access.home, access.elsewhere, access.body), token, **{name: each})
            for each in (real, _NOWHERE)
        )
        assert foreign.status == unknown.status == 404
        assert foreign.raw.replace(real.encode(), _NOWHERE.encode()) == unknown.raw
        differing = {"x-openstack-request-id", "x-compute-request-id"}
        assert {k: v for k, v in foreign.headers.items() if k not in differing} == {
            k: v for k, v in unknown.headers.items() if k not in differing
        }


def test_with_a_project_in_the_path_the_same_tokens_are_refused(world: World) -> None:
    home, tokens = world.identity.projects[HOME], world.identity.tokens
    for template, endpoints in ComputeFamily.routes.items():
        if not template.startswith(_OF_A_PROJECT):
            continue
        path = re.sub(r"{\w+}", "1", template.replace("{project_id}", home))
        for method, endpoint in endpoints.items():
            for scope, status in ((DOMAIN, 403), (SYSTEM, 403), (UNSCOPED, 403), (ELSEWHERE, 400)):
                headers = {
                    "X-Auth-Token": tokens["admin", scope],
                    "OpenStack-API-Version": f"compute {endpoint.until or _LATEST['compute']}",
                }
                answer = send(world.process.application, method, f"/compute{path}", b"", headers)
                assert answer.status == status, (method, template, scope, answer.body)


@pytest.mark.parametrize("route", sorted(DISCOVERY))
def test_discovery_is_open_to_all(world: World, route: str) -> None:
    for token in (None, "gAAAAAnonsense", *world.identity.tokens.values()):
        assert world.ask(route, Access(frozenset(), frozenset()), token).status == 200


def test_what_a_client_says_of_itself_changes_nothing(world: World) -> None:
    home = world.identity.projects[HOME]
    lies = {
        "X-Roles": "admin", "X-Role": "admin", "X-Project-Id": home, "X-Tenant-Id": home, "X-Is-Admin-Project": "True",
        "X-User-Id": world.identity.users["admin"], "X-Identity-Status": "Confirmed", "X-Domain-Id": "",
        "OpenStack-System-Scope": "", "X-Service-Roles": "admin,service", "X-Service-Identity-Status": "Confirmed",
    }  # fmt: skip
    statuses = {}
    for (role, scope), token in world.identity.tokens.items():
        if role in {"reader", "service"}:
            answer = send(
                world.process.application, "GET", "/compute/v2.1/os-services", b"", {"X-Auth-Token": token, **lies}
            )
            statuses[role, scope] = answer.status
    assert set(statuses.values()) == {403}, statuses
    assert send(world.process.application, "GET", "/compute/v2.1/os-services", b"", lies).status == 401
    honest = {"X-Auth-Token": world.identity.tokens["admin", HOME], "OpenStack-System-Scope": "all", "X-Domain-Id": "x"}
    assert send(world.process.application, "GET", "/compute/v2.1/os-services", b"", honest).status == 200


def test_the_refusal_says_what_is_missing(world: World) -> None:
    for scope, kind in ((DOMAIN, "domain-scoped"), (SYSTEM, "system-scoped"), (UNSCOPED, "unscoped")):
        token = world.identity.tokens["admin", scope]
        said = f"This request needs a token that is scoped to a project; yours is {kind}."
        assert world.ask("compute GET /v2.1/servers", ROUTES["compute GET /v2.1/servers"], token).fault == (
            "forbidden",
            said,
        )
        answer = world.ask("placement GET /traits", ROUTES["placement GET /traits"], token)
        assert (answer.error["title"], answer.detail) == ("Forbidden", said)
