# SPDX-License-Identifier: Apache-2.0
"""A project that was deleted in Keystone: administrators manage what it has, and nothing of it stays for ever."""

import json
from datetime import timedelta
from typing import Any

import requests
import sqlalchemy as sa

from api.access_world import World
from kilonova.cli.wiring.control import image_id
from kilonova.db import purge
from kilonova.db.core import tables as t
from support.api_client import Answer, send
from support.identity import HOME
from support.waiting import wait_until_idle


def keystone(world: World, method: str, path: str, body: Any = None) -> Any:
    token = world.identity.tokens["admin", HOME]
    answer = requests.request(
        method, f"{world.identity.url}/{path}", json=body, headers={"X-Auth-Token": token}, timeout=60
    )
    assert answer.ok, answer.text
    return answer.json() if answer.content else None


def token_in(world: World, project_id: str) -> str:
    user = {"name": "member", "password": "secret-member", "domain": {"id": "default"}}
    identity = {"methods": ["password"], "password": {"user": user}}
    asked = {"auth": {"identity": identity, "scope": {"project": {"id": project_id}}}}
    answer = requests.post(f"{world.identity.url}/auth/tokens", json=asked, timeout=60)
    assert answer.ok, answer.text
    return str(answer.headers["X-Subject-Token"])


def ask(world: World, token: str, method: str, path: str, raw: bytes = b"") -> Answer:
    headers = {"X-Auth-Token": token, "OpenStack-API-Version": "compute 2.100"}
    if raw:
        headers |= {"Content-Type": "application/json", "Content-Length": str(len(raw))}
    return send(world.process.application, method, f"/compute/v2.1{path}", raw, headers)


def test_what_a_deleted_project_has_is_managed_by_administrators(world: World) -> None:
    project = keystone(world, "POST", "projects", {"project": {"name": "short-lived"}})["project"]["id"]
    (role,) = [each["id"] for each in keystone(world, "GET", "roles")["roles"] if each["name"] == "member"]
    keystone(world, "PUT", f"projects/{project}/users/{world.identity.users['member']}/roles/{role}")
    world.admin("POST", "/flavors", {"flavor": {"name": "l", "id": "lasting", "ram": 64, "vcpus": 1, "disk": 1}})
    token = token_in(world, project)
    asked = {"name": "left", "imageRef": image_id("cirros"), "flavorRef": "lasting", "networks": "none"}
    made = ask(world, token, "POST", "/servers", json.dumps({"server": asked}).encode())
    assert made.status == 202, made.body
    server = made.body["server"]["id"]
    wait_until_idle(world.process.database)
    world.admin("PUT", f"/os-quota-sets/{project}", {"quota_set": {"cores": 7}})

    keystone(world, "DELETE", f"projects/{project}")

    listed = world.admin("GET", f"/servers?all_tenants=1&project_id={project}")["servers"]
    assert [each["id"] for each in listed] == [server]
    used = world.admin("GET", f"/limits?tenant_id={project}")["limits"]["absolute"]
    assert (used["totalInstancesUsed"], used["maxTotalCores"]) == (1, 7)
    admin = world.identity.tokens["admin", HOME]
    refused = ask(world, admin, "PUT", f"/os-quota-sets/{project}", b'{"quota_set": {"cores": 8}}')
    assert (refused.status, refused.fault[0]) == (400, "badRequest")
    for action in ("os-stop", "os-start"):
        world.admin("POST", f"/servers/{server}/action", {action: None})
        wait_until_idle(world.process.database)
    assert world.admin("GET", f"/servers/{server}")["server"]["status"] == "ACTIVE"
    assert ask(world, admin, "DELETE", f"/servers/{server}").status == 204
    wait_until_idle(world.process.database)
    assert world.admin("GET", f"/limits?tenant_id={project}")["limits"]["absolute"]["totalInstancesUsed"] == 0
    assert ask(world, admin, "DELETE", f"/os-quota-sets/{project}").status == 202

    database = world.process.database
    purge.purge(database, database.clock.now() + timedelta(seconds=1), rest=lambda _seconds: None)
    with database.read() as connection:
        for table in (t.quotas, t.instances, t.instance_actions):
            assert connection.execute(sa.select(table).where(table.c.project_id == project)).first() is None, table
