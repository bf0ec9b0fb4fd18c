# SPDX-License-Identifier: Apache-2.0
"""A dashboard before a cloud that a test describes: answers by method and path, and a browser that is signed in."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import falcon.testing
import httpx
import orjson

from kilonova.dashboard.application import Dashboard, DashboardOptions
from kilonova.dashboard.upstream.cloud_api import Cloud

KEYSTONE, COMPUTE, OPERATOR = "http://keystone.test", "http://compute.test/v2.1", "http://operator.test/v1"
ORIGIN = "http://dashboard.test"
FORM = {"Content-Type": "application/x-www-form-urlencoded", "Origin": ORIGIN}
PASSWORD, TOKEN = "correct horse", "the-token-of-{}"

USAGE: dict[str, Any] = {
    "seq": 41,
    "version": "0000aaaa-1",
    "whole": True,
    "hosts": ["node1", "node2"],
    "nodes": ["node1", "node2"],
    "zones": ["nova", "nova"],
    "up": [True, False],
    "disabled": [False, False],
    "servers": [1, 0],
    "resources": {"VCPU": {"capacity": [8, 8], "used": [4, 0]}, "MEMORY_MB": {"capacity": [4096, 0], "used": [512, 0]}},
}
_NOT_FOUND = 404, {"itemNotFound": {"code": 404, "message": "It could not be found."}}
HEALTH: dict[str, Any] = {
    "healthy": True,
    "checks": [{"name": "database", "healthy": True, "problem": None}],
    "workflows": {"unfinished": 0, "stuck": 0, "awaiting_hosts": []},
    "read_only": False,
    "refused_agents": [],
}


def server(name: str = "web-1", **changed: Any) -> dict[str, Any]:
    """Return a server as the compute API describes it to administrators."""
    return {
        "id": "8a4a5a3e-4d5f-4f0c-8f3e-0f3b4a1d2c11",
        "name": name,
        "status": "ACTIVE",
        "flavor": {"original_name": "m1.small", "vcpus": 1, "ram": 2048, "disk": 20},
        "addresses": {"private": [{"addr": "10.0.0.5"}]},
        "OS-EXT-SRV-ATTR:host": "node1",
        "OS-EXT-AZ:availability_zone": "nova",
        "tenant_id": "project-1",
        "created": "2026-11-28T15:00:00Z",
        "metadata": {},
        **changed,
    }


class FakeCloud:
    """Keystone with some users, and answers of services. ``answers``: (method, path) → JSON, or a status with JSON.

    ``users``: name → role. Only users with the role admin may use the operator API. ``asked``: all requests.
    """

    def __init__(self) -> None:
        self.users = {"root": "admin", "ada": "member"}
        self.projects = [("project-1", "wonder")]
        self.answers: dict[tuple[str, str], Any] = {
            ("GET", "/v1/hosts"): {"hosts": []},
            ("GET", "/v1/hosts/usage"): USAGE,
            ("GET", "/v1/health"): {"health": HEALTH},
            ("GET", "/v1/workflows"): {"workflows": []},
            ("GET", "/v2.1/servers/detail"): {"servers": [server()]},
            ("GET", "/v2.1/os-aggregates"): {"aggregates": []},
            ("GET", "/v2.1/limits"): {"limits": {"absolute": {"totalInstancesUsed": 1, "maxTotalInstances": 10}}},
        }
        self.asked: list[httpx.Request] = []
        self.revoked: set[str] = set()
        self.is_silent = False

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        if self.is_silent:
            raise httpx.ConnectError("no route")
        if request.url.host == "keystone.test":
            return self._keystone(request)
        token = request.headers.get("X-Auth-Token", "")
        if token in self.revoked or not token:
            return _fault(401, "The token is not valid.")
        if request.url.host == "operator.test" and not token.endswith("root"):
            return _fault(403, "Policy doesn't allow this to be performed.")
        answer = self.answers.get(
            (request.method, request.url.path), (404, {"itemNotFound": {"message": "No such page."}})
        )
        if callable(answer):
            answer = answer(request)
        status, body = answer if isinstance(answer, tuple) else (200, answer)
        return httpx.Response(status, json=body)

    def _keystone(self, request: httpx.Request) -> httpx.Response:
        if request.method == "DELETE":
            self.revoked.add(request.headers["X-Subject-Token"])
            return httpx.Response(204)
        if request.url.path == "/v3/auth/projects":
            listed = [{"id": uuid, "name": name, "domain_id": "default"} for uuid, name in self.projects]
            return httpx.Response(200, json={"projects": listed})
        if request.method == "GET":
            name, scope = request.headers["X-Subject-Token"].removeprefix(TOKEN.format("")), "any"
        else:
            auth = orjson.loads(request.content)["auth"]
            identity, scope = auth["identity"], auth.get("scope", "any")
            name = self._name_of(identity)
        if name not in self.users:
            return _fault(401, "The request you have made requires authentication.")
        return httpx.Response(201, json=self._token(name, scope), headers={"X-Subject-Token": TOKEN.format(name)})

    def _name_of(self, identity: dict[str, Any]) -> str:
        match identity["methods"]:
            case ["password"]:
                user = identity["password"]["user"]
                return str(user["name"]) if user["password"] == PASSWORD else ""
            case ["token"]:
                return str(identity["token"]["id"]).removeprefix(TOKEN.format(""))
            case _:
                return str(identity["application_credential"]["id"])

    def _token(self, name: str, scope: Any) -> dict[str, Any]:
        project = None if scope == "unscoped" else {"id": "project-1", "name": "wonder", "domain": {"name": "Default"}}
        endpoints = {"compute": COMPUTE, "kilonova": OPERATOR, "identity": KEYSTONE}
        told = {
            "user": {"id": f"id-of-{name}", "name": name},
            "roles": [{"name": self.users[name]}],
            "expires_at": (datetime.now(UTC) + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "catalog": [
                {"type": kind, "endpoints": [{"interface": "public", "region": "RegionOne", "url": url}]}
                for kind, url in endpoints.items()
            ],
        }
        return {"token": told if project is None else {**told, "project": project}}


class Browser:
    """A browser before a dashboard. It keeps cookies and sends the headers of its own forms."""

    def __init__(self, cloud: FakeCloud, options: DashboardOptions, clock: Callable[[], float]) -> None:
        http = httpx.AsyncClient(transport=httpx.MockTransport(cloud))
        self.dashboard = Dashboard(Cloud(http, KEYSTONE), options, clock)
        self._client = falcon.testing.TestClient(self.dashboard.app)
        self.cookies: dict[str, str] = {}

    def get(self, path: str, **headers: str) -> falcon.testing.Result:
        path, _, query = path.partition("?")
        return self._client.simulate_get(
            path, query_string=query, headers=headers, cookies=self.cookies, host="dashboard.test"
        )

    def post(self, path: str, fields: dict[str, str] | None = None, **headers: str) -> falcon.testing.Result:
        body = str(httpx.QueryParams(fields or {}))
        answer = self._client.simulate_post(
            path, body=body, headers={**FORM, **headers}, cookies=self.cookies, host="dashboard.test"
        )
        for name, cookie in answer.cookies.items():
            self.cookies[name] = cookie.value
        return answer

    def sign_in(self, user: str = "root", password: str = PASSWORD, **fields: str) -> falcon.testing.Result:
        return self.post("/sign-in", {"user": user, "password": password, "domain": "Default", **fields})


class FakeClock:
    """Seconds that pass only when a test says so."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def _fault(status: int, message: str) -> httpx.Response:
    return httpx.Response(status, json={"fault": {"code": status, "message": message}})


def run(coroutine: Any) -> Any:
    """Run a coroutine to its end."""
    return asyncio.run(coroutine)
