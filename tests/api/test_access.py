# SPDX-License-Identifier: Apache-2.0
"""Every route with tokens of every role in every scope, from a real Keystone, against a table written by hand."""

import re

import pytest

from api.access_table import DISCOVERY, PARTICULAR, ROUTES, Access
from api.access_world import ENDPOINTS, LATEST, NOWHERE, OF_A_PROJECT, World
from kilonova.api.compute.family import ComputeFamily
from support.api_client import Answer, send
from support.identity import DOMAIN, ELSEWHERE, HOME, ROLES, SYSTEM, UNSCOPED


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
            right &= (answer.status == 404) == access.is_absent or access.refused_elsewhere != 404
        else:
            right = answer.status == (access.refused_elsewhere if scope == ELSEWHERE else 403)
        if not right:
            wrong[role, scope] = answer
    assert wrong == {}
    assert world.ask(route, access, None).status == 401
    assert world.ask(route, access, "gAAAAAnonsense").status == 401


@pytest.mark.parametrize("route", sorted(route for route, access in ROUTES.items() if access.refused_elsewhere == 404))
def test_what_another_project_has_answers_like_what_nobody_has(world: World, route: str) -> None:
    name = re.findall(r"{(\w+)}", route)[0]
    access = ROUTES[route]
    value = {**world.values, **(access.path or {})}[name]
    real = world.spare(value) if value.startswith("@") else value
    for role in set(ROLES) - access.elsewhere:
        token = world.identity.tokens[role, ELSEWHERE]
        foreign, unknown = (
            world.ask(route, Access(access.home, access.elsewhere, access.body), token, **{name: each})
            for each in (real, NOWHERE)
        )
        assert foreign.status == unknown.status == 404
        assert foreign.raw.replace(real.encode(), NOWHERE.encode()) == unknown.raw
        differing = {"x-openstack-request-id", "x-compute-request-id"}
        assert {k: v for k, v in foreign.headers.items() if k not in differing} == {
            k: v for k, v in unknown.headers.items() if k not in differing
        }


def test_with_a_project_in_the_path_the_same_tokens_are_refused(world: World) -> None:
    home, tokens = world.identity.projects[HOME], world.identity.tokens
    for template, endpoints in ComputeFamily.routes.items():
        if not template.startswith(OF_A_PROJECT):
            continue
        path = re.sub(r"{\w+}", "1", template.replace("{project_id}", home))
        for method, endpoint in endpoints.items():
            for scope, status in ((DOMAIN, 403), (SYSTEM, 403), (UNSCOPED, 403), (ELSEWHERE, 400)):
                headers = {
                    "X-Auth-Token": tokens["admin", scope],
                    "OpenStack-API-Version": f"compute {endpoint.until or LATEST['compute']}",
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
        said = f"This request needs a project-scoped token; this token is {kind}."
        assert world.ask("compute GET /v2.1/servers", ROUTES["compute GET /v2.1/servers"], token).fault == (
            "forbidden",
            said,
        )
        answer = world.ask("placement GET /traits", ROUTES["placement GET /traits"], token)
        assert (answer.error["title"], answer.detail) == ("Forbidden", said)
