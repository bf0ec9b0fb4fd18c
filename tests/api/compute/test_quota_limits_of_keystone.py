# SPDX-License-Identifier: Apache-2.0
"""Unified limits, and projects that do not exist, with a real Keystone.

Its enforcement model is strict_two_level.
"""

import shutil
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests

from kilonova.cli.wiring.control import ControlProcess, image_id, start_control_process
from kilonova.config.load import load_settings
from support.api_client import Client
from support.identity import ELSEWHERE, HOME, Identity
from support.waiting import wait_until_idle

REGISTERED = {
    "servers": 3, "class:VCPU": -1, "class:MEMORY_MB": 64 * 5, "server_metadata_items": 1, "server_key_pairs": 2,
    "server_groups": 1, "server_group_members": 2,
}  # fmt: skip
#: Limits of the domain of both projects.
TOGETHER = {"servers": 100, "class:MEMORY_MB": 64 * 100}


@dataclass
class Keystone:
    """Speaks to Keystone as the administrator; knows the compute service."""

    identity: Identity
    url: str
    service: str = ""

    def call(self, method: str, path: str, body: Any = None) -> Any:
        headers = {"X-Auth-Token": self.identity.tokens["admin", HOME]}
        answer = requests.request(method, f"{self.url}/v3/{path}", json=body, headers=headers, timeout=60)
        assert answer.ok, answer.text
        return answer.json() if answer.content else None

    def limit(self, project: str, **limits: int) -> None:
        rows = [
            {"service_id": self.service, "project_id": project, "resource_name": name, "resource_limit": limit}
            for name, limit in limits.items()
        ]
        self.call("POST", "limits", {"limits": rows})

    def limit_domain(self, **limits: int) -> None:
        """Change limits of the domain."""
        for row in self.call("GET", "limits?domain_id=default")["limits"]:
            if row["resource_name"] in limits:
                changed = {"resource_limit": limits[row["resource_name"]]}
                self.call("PATCH", f"limits/{row['id']}", {"limit": changed})


@pytest.fixture(scope="module")
def keystone(identity: Identity) -> Keystone:
    made = Keystone(identity, identity.url.removesuffix("/v3"))
    made.service = made.call("POST", "services", {"service": {"type": "compute", "name": "nova"}})["service"]["id"]
    rows = [
        {"service_id": made.service, "resource_name": name, "default_limit": limit}
        for name, limit in REGISTERED.items()
    ]
    made.call("POST", "registered_limits", {"registered_limits": rows})
    of_domain = [
        {"service_id": made.service, "domain_id": "default", "resource_name": name, "resource_limit": limit}
        for name, limit in TOGETHER.items()
    ]
    made.call("POST", "limits", {"limits": of_domain})
    return made


@dataclass
class Cloud:
    process: ControlProcess
    identity: Identity

    def client(self, role: str, project: str = HOME) -> Client:
        return Client(self.process.application, self.identity.tokens[role, project], "2.100")

    def ask(self, project: str = HOME, **more: Any) -> Any:
        server = {"name": "vm", "imageRef": image_id("cirros"), "flavorRef": "1", "networks": "none", **more}
        return self.client("member", project).post("/servers", {"server": server})


@pytest.fixture
def cloud(keystone: Keystone, sqlite_template: Path, tmp_path: Path) -> Iterator[Cloud]:
    shutil.copy(sqlite_template, tmp_path / "kilonova.db")
    (tmp_path / "scenario.yaml").write_text("images: [{name: cirros}]\nhosts: 2\n")
    section = keystone.identity.section
    login = section.replace("[keystone_authtoken]", "[oslo_limit]\nendpoint_service_type = compute")
    login = login.replace("username = k\npassword = secret-k\nproject_name = service", "username = root\n"
                          "password = secret-root\nproject_name = admin")  # fmt: skip
    (tmp_path / "kilonova.conf").write_text(
        f"[api]\nauth_strategy = keystone\n[database]\nconnection = sqlite:///{tmp_path}/kilonova.db\n"
        f"[fake]\nstate_dir = {tmp_path}/hypervisors\nscenario = {tmp_path}/scenario.yaml\n"
        f"[quota]\ndriver = nova.quota.UnifiedLimitsDriver\n{section}{login}"
    )
    started = Cloud(start_control_process(load_settings([str(tmp_path / "kilonova.conf")])), keystone.identity)
    flavor = {"name": "small", "id": "1", "ram": 64, "vcpus": 1, "disk": 0}
    assert started.client("admin").post("/flavors", {"flavor": {**flavor, "disk": 1}}).status == 200
    yield started
    wait_until_idle(started.process.database)
    started.process.close()


def test_limits_of_keystone_are_in_force(cloud: Cloud, keystone: Keystone) -> None:
    elsewhere = keystone.identity.projects[ELSEWHERE]
    keystone.limit(elsewhere, servers=10)
    with ThreadPoolExecutor(16) as pool:
        ours = [pool.submit(cloud.ask) for _ in range(12)]
        theirs = [pool.submit(cloud.ask, ELSEWHERE) for _ in range(12)]
    assert Counter(each.result().status for each in ours) == {202: 3, 403: 9}
    assert Counter(each.result().status for each in theirs) == {202: 5, 403: 7}, (
        "their memory ends before their servers"
    )
    absolute = cloud.client("reader", ELSEWHERE).get("/limits").body["limits"]["absolute"]
    assert (absolute["maxTotalInstances"], absolute["totalInstancesUsed"]) == (10, 5)
    assert (absolute["maxTotalCores"], absolute["maxTotalRAMSize"], absolute["maxServerGroups"]) == (-1, 320, 1)
    shown = cloud.client("admin").get(f"/os-quota-sets/{elsewhere}").body["quota_set"]
    assert (shown["instances"], shown["key_pairs"]) == (10, 2)
    shown = cloud.client("admin").get(f"/os-quota-sets/{elsewhere}/defaults").body["quota_set"]
    assert shown["instances"] == 3
    assert cloud.ask(ELSEWHERE, metadata={"a": "1", "b": "2"}).fault[1] == "Maximum number of metadata items exceeds 1"
    group = {"server_group": {"name": "g", "policy": "affinity"}}
    assert [cloud.client("member").post("/os-server-groups", group).status for _ in range(2)] == [200, 403]


def test_the_limits_of_a_domain_hold_for_all_its_projects_together(cloud: Cloud, keystone: Keystone) -> None:
    keystone.limit_domain(**{"class:MEMORY_MB": 64 * 6})
    try:
        with ThreadPoolExecutor(16) as pool:
            ours = [pool.submit(cloud.ask) for _ in range(8)]
            theirs = [pool.submit(cloud.ask, ELSEWHERE) for _ in range(8)]
        statuses = Counter(each.result().status for each in (*ours, *theirs))
        assert statuses == {202: 6, 403: 10}, "home alone could have 3 servers, and elsewhere 5"
        refused = cloud.ask(ELSEWHERE) if accepted(theirs) < 5 else cloud.ask()
        assert refused.fault[1].endswith("already used 384 of 384 ram of domain default")
        wait_until_idle(cloud.process.database)
        mine = next(each.result().body["server"]["id"] for each in (*ours, *theirs) if each.result().status == 202)
        assert cloud.client("admin").delete(f"/servers/{mine}").status == 204
        wait_until_idle(cloud.process.database)
        again = cloud.ask(ELSEWHERE, min_count=1, max_count=5), cloud.ask(min_count=1, max_count=5)
        assert sorted(each.status for each in again) == [202, 403]
        assert used_memory(cloud) == 64 * 6
    finally:
        keystone.limit_domain(**TOGETHER)


def accepted(asked: list[Any]) -> int:
    """Return the number of accepted requests."""
    return sum(each.result().status == 202 for each in asked)


def used_memory(cloud: Cloud) -> int:
    """Return the memory that both projects use, as GET /limits shows it."""
    shown = [cloud.client("reader", project).get("/limits").body["limits"] for project in (HOME, ELSEWHERE)]
    return sum(each["absolute"]["totalRAMUsed"] for each in shown)


def test_limits_of_keystone_are_not_changed_here(cloud: Cloud) -> None:
    admin, home = cloud.client("admin"), cloud.identity.projects[HOME]
    assert admin.put(f"/os-quota-sets/{home}", {"quota_set": {"instances": 99}}).status == 400
    assert admin.delete(f"/os-quota-sets/{home}").status == 400
    assert admin.put("/os-quota-class-sets/default", {"quota_class_set": {"instances": 99}}).status == 400


def test_projects_that_do_not_exist(cloud: Cloud) -> None:
    admin, elsewhere = cloud.client("admin"), cloud.identity.projects[ELSEWHERE]
    flavor = {"name": "private", "id": "2", "ram": 64, "vcpus": 1, "disk": 1, "os-flavor-access:is_public": False}
    assert admin.post("/flavors", {"flavor": flavor}).status == 200
    refused = admin.post("/flavors/2/action", {"addTenantAccess": {"tenant": "unknown-project"}})
    assert refused.fault == ("badRequest", "Project ID unknown-project is not a valid project.")
    assert admin.get("/flavors/2/os-flavor-access").body == {"flavor_access": []}
    assert admin.post("/flavors/2/action", {"addTenantAccess": {"tenant": elsewhere}}).status == 200
    assert admin.get("/os-quota-sets/unknown-project").status == 400
    assert admin.get(f"/os-quota-sets/{elsewhere}").status == 200
