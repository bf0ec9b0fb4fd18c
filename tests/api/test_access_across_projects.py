# SPDX-License-Identifier: Apache-2.0
"""What one project has is not there for another: neither seen, nor changed, nor told from what nobody has.

The routes are walked as they are, so a new one is held to this by being there, and a new kind of parameter has to say
whether a tenant's things are named by it.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

from api.access_table import ANY, ROUTES, Access
from api.access_world import ENDPOINTS, World
from kilonova.cli.wiring.control import image_id
from support.api_client import Answer
from support.identity import ELSEWHERE, HOME
from support.waiting import wait_until_idle

SECRET = "wisteria"  # in every name and value of the victim's
KEY = (
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHUnYVL0nqBQ0Sb0Jv9a4vY0cZxXl7hGZk0n8C0Wq1hV "  # of nobody
    f"{SECRET}@there"
)
#: What names a tenant's thing in a route → the like of it that nobody has.
OWNED = {
    "server_id": "0b674f73-aaaa-4000-8000-000000000000",
    "server_group_id": "1b674f73-aaaa-4000-8000-000000000000",
    "flavor_id": "2b674f73-aaaa-4000-8000-000000000000",
    "keypair_name": "x" * len(f"{SECRET}-key"),
    "quota_project_id": "3b674f73aaaa40008000000000000000",
    "usage_project_id": "3b674f73aaaa40008000000000000000",
}
#: What names something of the cloud's own, what only administrators and services may name at all, or what there is in
#: something of a tenant's only.
OF_THE_CLOUD = frozenset(
    {"aggregate_id", "hypervisor_id", "service_id", "class_name", "key", "uuid", "resource_class", "name"}
    | {"consumer_uuid", "request_id", "migration_id", "tag", "port_id", "volume_id", "network", "share_id"}
    | {"before", "console_token", "host", "host_name", "snapshot_id"}
)
#: What everybody sees alike, what nobody can have, and what another service is asked for with the caller's own token.
OF_NO_PROJECT = frozenset(
    {"alias", "absent_id", "image_id", "network_id", "floating_ip_id", "security_group_id", "security_group_rule_id"}
)
#: What it answers is the same for every project.
OF_EVERYBODY = {"compute GET /v2.1/os-quota-sets/{quota_project_id}/defaults"}
STRANGERS = sorted(ANY - {"admin"})
NAMING = sorted(route for route in ROUTES if set(re.findall(r"{(\w+)}", route)) & set(OWNED))
READING = sorted(route for route in ENDPOINTS if route in ROUTES and " GET " in route)
_DIFFERING = frozenset({"x-openstack-request-id", "x-compute-request-id"})


@dataclass
class Victim:
    """The administrator's things in ``home``, each with the secret in it. ``values``: how routes name them."""

    world: World
    values: Mapping[str, str]

    def token_of_stranger(self, role: str) -> str:
        return self.world.identity.tokens[role, ELSEWHERE]

    def ask(self, route: str, role: str, access: Access, *, at: str | None = None, **named: str) -> Answer:
        """Ask as somebody of another project. Nothing of the victim's is in the answer but what was asked for."""
        answer = self.world.ask(route, access, self.token_of_stranger(role), at=at, **named)
        said = f"{access.query} {json.dumps(access.body)} {' '.join(named.values())}"
        told = answer.raw.decode() + json.dumps(dict(answer.headers))
        for hidden in (SECRET, *self.values.values()):
            assert hidden not in told or hidden in said, (route, role, hidden, answer.raw)
        return answer

    def belongings(self) -> Any:
        """Everything as the victim sees it."""
        admin, named = self.world.admin, self.values
        return [
            admin("GET", path)
            for path in (
                f"/servers/{named['server_id']}",
                f"/os-server-groups/{named['server_group_id']}",
                f"/flavors/{named['flavor_id']}",
                f"/flavors/{named['flavor_id']}/os-flavor-access",
                f"/flavors/{named['flavor_id']}/os-extra_specs",
                f"/os-keypairs/{named['keypair_name']}",
                f"/os-quota-sets/{named['quota_project_id']}/detail",
            )
        ]


@pytest.fixture(scope="module")
def victim(world: World) -> Iterator[Victim]:
    size = {"ram": 64, "vcpus": 1, "disk": 1}
    world.admin("POST", "/flavors", {"flavor": {"name": "everybody's", "id": "everybodys", **size}})
    flavor = {"name": f"{SECRET}-flavor", "os-flavor-access:is_public": False, **size}
    flavor_id = world.admin("POST", "/flavors", {"flavor": flavor})["flavor"]["id"]
    world.admin("POST", f"/flavors/{flavor_id}/os-extra_specs", {"extra_specs": {"a": SECRET}})
    home = world.identity.projects[HOME]
    world.admin("POST", f"/flavors/{flavor_id}/action", {"addTenantAccess": {"tenant": home}})
    keypair = {"name": f"{SECRET}-key", "public_key": KEY}
    world.admin("POST", "/os-keypairs", {"keypair": keypair})
    group = {"name": f"{SECRET}-group", "policy": "affinity"}
    group_id = world.admin("POST", "/os-server-groups", {"server_group": group})["server_group"]["id"]
    server = {
        "name": f"{SECRET}-server",
        "description": SECRET,
        "metadata": {SECRET: SECRET},
        "tags": [SECRET],
        "key_name": keypair["name"],
        "imageRef": image_id("cirros"),
        "flavorRef": flavor_id,
        "networks": "none",
    }
    made = world.admin("POST", "/servers", {"server": server, "os:scheduler_hints": {"group": group_id}})["server"]
    wait_until_idle(world.process.database)
    values = {
        "server_id": made["id"],
        "server_group_id": group_id,
        "flavor_id": flavor_id,
        "keypair_name": keypair["name"],
        "quota_project_id": home,
        "usage_project_id": home,
    }
    found = Victim(world, values)
    assert made["id"] in json.dumps(world.admin("GET", "/servers"))
    assert SECRET in json.dumps(found.belongings()[0])
    before = found.belongings()
    yield found
    assert found.belongings() == before


def same(foreign: Answer, unknown: Answer, real: str, unreal: str) -> bool:
    """Whether nobody can tell the two by what they say, but for the name that was asked for."""
    return (
        foreign.status == unknown.status
        and foreign.raw.replace(real.encode(), unreal.encode()) == unknown.raw
        and {key: value for key, value in foreign.headers.items() if key not in _DIFFERING}
        == {key: value for key, value in unknown.headers.items() if key not in _DIFFERING}
    )


def versions(route: str) -> list[str | None]:
    """The newest microversion, and of the compute API every one in which the query or the body of a route changed."""
    if not route.startswith("compute"):
        return [None]
    endpoint = ENDPOINTS[route]
    changes = {version for schemas in (endpoint.query, endpoint.body) if schemas for version in schemas.by_version}
    return [None, *(f"{major}.{minor}" for major, minor in sorted({(2, 1), *changes}))]


def test_every_parameter_of_a_route_says_whose_things_it_names() -> None:
    used = {name for route in ROUTES for name in re.findall(r"{(\w+)}", route)}
    assert not used - set(OWNED) - OF_THE_CLOUD - OF_NO_PROJECT, "say in this module whose things these name"
    assert not (set(OWNED) | OF_THE_CLOUD | OF_NO_PROJECT) - used, "these are gone"


@pytest.mark.parametrize("route", sorted(set(ROUTES) - set(NAMING)))
def test_other_routes_that_name_something_are_for_administrators_and_services(route: str) -> None:
    if set(re.findall(r"{(\w+)}", route)) - OF_NO_PROJECT and "{image_id}" not in route:
        assert not ROUTES[route].elsewhere & {"reader", "member", "manager"}


@pytest.mark.parametrize("route", NAMING)
def test_what_another_project_has_cannot_be_told_from_what_nobody_has(victim: Victim, route: str) -> None:
    access, before = ROUTES[route], victim.belongings()
    for name in sorted(set(re.findall(r"{(\w+)}", route)) & set(OWNED)):
        real, unreal = victim.values[name], OWNED[name]
        bare = replace(access, path=None)
        for role in STRANGERS:
            for at in versions(route):
                foreign, unknown = (victim.ask(route, role, bare, at=at, **{name: each}) for each in (real, unreal))
                assert same(foreign, unknown, real, unreal), (role, at, foreign, unknown)
                assert foreign.status in {400, 403, 404} or route in OF_EVERYBODY, (role, at, foreign)
    assert victim.belongings() == before


@pytest.mark.parametrize("route", READING)
def test_nothing_of_another_project_is_in_what_a_stranger_reads(victim: Victim, route: str) -> None:
    for role in STRANGERS:
        for at in versions(route):
            victim.ask(route, role, ROUTES[route], at=at, **nobodys(route))


def nobodys(route: str) -> dict[str, str]:
    """Values for what names a tenant's things in a route: such as nobody has."""
    return {name: OWNED[name] for name in re.findall(r"{(\w+)}", route) if name in OWNED}


def parameters(route: str) -> set[str]:
    """The parameters of a query that the schemas of a route know."""
    schemas = ENDPOINTS[route].query
    return {name for each in (schemas.by_version.values() if schemas else ()) for name in each.get("properties", {})}


@pytest.mark.parametrize("route", [route for route in READING if route.startswith("compute") and parameters(route)])
def test_a_query_that_names_what_another_project_has_finds_as_much_as_one_that_names_nothing(
    victim: Victim, route: str
) -> None:
    """Filters, markers, sort keys: whatever a parameter means, a foreign value does what an unknown one does."""
    pairs = [(real, OWNED[name]) for name, real in victim.values.items()]
    pairs += [(f"{SECRET}-server", "s" * len(f"{SECRET}-server")), (SECRET, "s" * len(SECRET))]
    pairs += [(victim.world.identity.users["admin"], "4b674f73aaaa40008000000000000000")]
    for parameter in sorted(parameters(route)):
        for real, unreal in pairs:
            foreign, unknown = (
                victim.ask(route, "manager", replace(ROUTES[route], query=f"?{parameter}={each}"), **nobodys(route))
                for each in (real, unreal)
            )
            assert same(foreign, unknown, real, unreal), (parameter, real, foreign, unknown)


@pytest.mark.parametrize(
    "naming",
    [
        {"server": {"key_name": "keypair_name"}},
        {"server": {"flavorRef": "flavor_id"}},
        {"os:scheduler_hints": {"group": "server_group_id"}},
    ],
    ids=lambda naming: " ".join(str(part) for content in naming.values() for part in content),
)
def test_a_server_cannot_be_made_with_what_another_project_has(
    victim: Victim, naming: Mapping[str, Mapping[str, str]]
) -> None:
    """Key pairs, private flavors, groups. Servers in hints: tests/api/compute/test_hints.py."""
    server = {"name": "vm", "imageRef": image_id("cirros"), "flavorRef": "everybodys", "networks": "none"}
    answers = []
    ((name,),) = (content.values() for content in naming.values())
    for each in (victim.values[name], OWNED[name]):
        body: dict[str, Any] = {"server": dict(server)}
        for part, content in naming.items():
            body[part] = {**body.get(part, {}), **dict.fromkeys(content, each)}
        answers.append(victim.ask("compute POST /v2.1/servers", "manager", Access(ANY, ANY, body)))
    assert same(*answers, victim.values[name], OWNED[name]), answers
    assert answers[0].status == 400
