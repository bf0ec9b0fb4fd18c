# SPDX-License-Identifier: Apache-2.0
"""Real Keystone for tests, with a token for every role in every scope."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests

from kilonova.bundled_services.free_ports import free_port
from kilonova.bundled_services.parent_death import die_with_parent
from kilonova.bundled_services.settings import Account, CatalogEntry, KeystoneSettings, save
from support.waiting import wait_for_service

ROLES = ("reader", "member", "manager", "admin", "service")
#: Scopes of tokens: two projects, their domain, the system, and unscoped.
HOME, ELSEWHERE, DOMAIN, SYSTEM, UNSCOPED = SCOPES = ("home", "elsewhere", "domain", "system", "unscoped")


@dataclass(frozen=True)
class Identity:
    """Running Keystone.

    ``url``: of its API; ``projects``: ids of ``home`` and ``elsewhere``; ``users``: ids by role; ``tokens``: by role
    and scope; ``section``: the configuration with which a service authenticates. The user of each role has that role
    and the roles that Keystone implies by it, in both projects, the domain and the system.
    """

    url: str
    section: str
    projects: Mapping[str, str]
    users: Mapping[str, str]
    tokens: Mapping[tuple[str, str], str]

    def new_token(self, role: str, scope: str) -> str:
        """Authenticate again, for a token that a test may revoke."""
        return _token(self.url, role, f"secret-{role}", _scopes(self.projects)[scope])


@contextmanager
def start_identity(folder: Path, **options: str) -> Iterator[Identity]:
    """Run Keystone in ``folder`` for the duration of the block.

    ``options``: options of Keystone, by the names of oslo.config's environment variables without ``OS_``.
    """
    url = f"http://127.0.0.1:{free_port()}"
    admin, service = (
        Account("root", "secret-root", "admin", ("admin",)),
        Account("k", "secret-k", "service", ("service",)),
    )
    catalog = (CatalogEntry("identity", "keystone", f"{url}/identity"),)
    folder.mkdir()
    settings = KeystoneSettings(
        str(folder), "127.0.0.1", int(url.rpartition(":")[2]), "RegionOne", (admin, service), catalog
    )
    save(settings, folder / "settings.json")
    command = [sys.executable, "-m", "kilonova.bundled_services.keystone", "--settings", str(folder / "settings.json")]
    with (folder / "log").open("wb") as log:
        environment = os.environ | {f"OS_{name}": value for name, value in options.items()}
        parent = os.getpid()
        process = subprocess.Popen(
            command,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env=environment,
            preexec_fn=lambda: die_with_parent(parent),  # noqa: PLW1509 - no import after fork
        )
    try:
        wait_for_service(process, url, folder / "log")
        yield _people(f"{url}/v3", admin, service)
    finally:
        process.terminate()
        process.wait(30)


def _people(url: str, admin: Account, service: Account) -> Identity:
    session = requests.Session()

    def call(method: str, path: str, body: Any = None) -> Any:
        answer = session.request(method, f"{url}/{path}", json=body, timeout=60)
        assert answer.ok, answer.text
        return answer.json() if answer.content else None

    named = {"name": admin.project, "domain": {"id": "default"}}
    session.headers["X-Auth-Token"] = _token(url, admin.user, admin.password, {"project": named})
    projects = {
        name: call("POST", "projects", {"project": {"name": name}})["project"]["id"] for name in (HOME, ELSEWHERE)
    }
    roles = {role["name"]: role["id"] for role in call("GET", "roles")["roles"]}
    users: dict[str, str] = {}
    tokens: dict[tuple[str, str], str] = {}
    places = (f"projects/{projects[HOME]}", f"projects/{projects[ELSEWHERE]}", "domains/default", "system")
    for role in ROLES:
        password = f"secret-{role}"
        user = call("POST", "users", {"user": {"name": role, "password": password, "domain_id": "default"}})["user"][
            "id"
        ]
        users[role] = user
        for place in places:
            call("PUT", f"{place}/users/{user}/roles/{roles[role]}")
        for scope, content in _scopes(projects).items():
            tokens[role, scope] = _token(url, role, password, content)
    section = (
        f"[keystone_authtoken]\nauth_type = password\nauth_url = {url}\nwww_authenticate_uri = {url}\n"
        f"username = {service.user}\npassword = {service.password}\nproject_name = {service.project}\n"
        "user_domain_name = Default\nproject_domain_name = Default\nservice_token_roles_required = true\n"
    )
    return Identity(url, section, projects, users, tokens)


def _scopes(projects: Mapping[str, str]) -> Mapping[str, Any]:
    return {
        HOME: {"project": {"id": projects[HOME]}},
        ELSEWHERE: {"project": {"id": projects[ELSEWHERE]}},
        DOMAIN: {"domain": {"id": "default"}},
        SYSTEM: {"system": {"all": True}},
        UNSCOPED: {"unscoped": {}},
    }


def _token(url: str, name: str, password: str, scope: Any) -> str:
    user = {"name": name, "password": password, "domain": {"id": "default"}}
    identity = {"methods": ["password"], "password": {"user": user}}
    answer = requests.post(f"{url}/auth/tokens", json={"auth": {"identity": identity, "scope": scope}}, timeout=60)
    assert answer.ok, answer.text
    return str(answer.headers["X-Subject-Token"])
