# SPDX-License-Identifier: Apache-2.0
"""Requests reserved for administrators are refused to a plain member, and change nothing."""

from typing import Any

import pytest

from api.compute_cloud import Cloud

NODE = "8a5b6c1c-0000-4000-8000-000000000000"
AGGREGATE = {"aggregate": {"name": "x"}}
FLAVOR = {"flavor": {"name": "x", "ram": 1, "vcpus": 1, "disk": 1}}
SERVICE = {"host": "node1", "binary": "nova-compute"}

ADMIN_ONLY: list[tuple[str, str, str, Any, str]] = [
    ("GET", "/os-aggregates", "2.1", None, "os-aggregates:index"),
    ("POST", "/os-aggregates", "2.1", AGGREGATE, "os-aggregates:create"),
    ("GET", "/os-aggregates/1", "2.1", None, "os-aggregates:show"),
    ("PUT", "/os-aggregates/1", "2.1", AGGREGATE, "os-aggregates:update"),
    ("DELETE", "/os-aggregates/1", "2.1", None, "os-aggregates:delete"),
    ("POST", "/os-aggregates/1/action", "2.1", {"add_host": {"host": "node1"}}, "os-aggregates:add_host"),
    ("POST", "/os-aggregates/1/action", "2.1", {"remove_host": {"host": "node1"}}, "os-aggregates:remove_host"),
    ("POST", "/os-aggregates/1/action", "2.1", {"set_metadata": {"metadata": {}}}, "os-aggregates:set_metadata"),
    ("GET", "/os-availability-zone/detail", "2.1", None, "os-availability-zone:detail"),
    ("POST", "/flavors", "2.1", FLAVOR, "os-flavor-manage:create"),
    ("PUT", "/flavors/f", "2.55", {"flavor": {"description": "x"}}, "os-flavor-manage:update"),
    ("DELETE", "/flavors/f", "2.1", None, "os-flavor-manage:delete"),
    ("GET", "/flavors/f/os-flavor-access", "2.1", None, "os-flavor-access"),
    ("POST", "/flavors/f/action", "2.1", {"addTenantAccess": {"tenant": "a"}}, "os-flavor-access:add_tenant_access"),
    (
        "POST",
        "/flavors/f/action",
        "2.1",
        {"removeTenantAccess": {"tenant": "a"}},
        "os-flavor-access:remove_tenant_access",
    ),
    ("POST", "/flavors/f/os-extra_specs", "2.1", {"extra_specs": {"a": "b"}}, "os-flavor-extra-specs:create"),
    ("PUT", "/flavors/f/os-extra_specs/a", "2.1", {"a": "b"}, "os-flavor-extra-specs:update"),
    ("DELETE", "/flavors/f/os-extra_specs/a", "2.1", None, "os-flavor-extra-specs:delete"),
    ("GET", "/os-hypervisors", "2.1", None, "os-hypervisors:list"),
    ("GET", "/os-hypervisors/detail", "2.1", None, "os-hypervisors:list-detail"),
    ("GET", "/os-hypervisors/statistics", "2.1", None, "os-hypervisors:statistics"),
    ("GET", "/os-hypervisors/1", "2.1", None, "os-hypervisors:show"),
    ("GET", "/os-hypervisors/1/uptime", "2.1", None, "os-hypervisors:uptime"),
    ("GET", "/os-hypervisors/node/search", "2.1", None, "os-hypervisors:search"),
    ("GET", "/os-hypervisors/node/servers", "2.1", None, "os-hypervisors:servers"),
    ("GET", "/os-services", "2.1", None, "os-services:list"),
    ("PUT", "/os-services/enable", "2.1", SERVICE, "os-services:update"),
    ("PUT", f"/os-services/{NODE}", "2.53", {"status": "disabled"}, "os-services:update"),
    ("DELETE", "/os-services/1", "2.1", None, "os-services:delete"),
    ("DELETE", f"/os-services/{NODE}", "2.53", None, "os-services:delete"),
]


@pytest.mark.parametrize(("method", "path", "version", "body", "rule"), ADMIN_ONLY)
def test_a_member_may_not(cloud: Cloud, method: str, path: str, version: str, body: Any, rule: str) -> None:
    cloud.add_host("node1")
    cloud.admin.post("/os-aggregates", {"aggregate": {"name": "a"}})
    cloud.admin.post("/flavors", {"flavor": {"id": "f", "name": "f", "ram": 1, "vcpus": 1, "disk": 1}})
    before = cloud.everything()
    answer = cloud.member.at(version).send(method, path, body)
    assert answer.status == 403
    assert answer.fault == ("forbidden", f"Policy doesn't allow os_compute_api:{rule} to be performed.")
    assert cloud.everything() == before


def test_without_a_token_nothing_is_answered(cloud: Cloud) -> None:
    for method, path, version, body, _ in ADMIN_ONLY:
        answer = cloud.as_user("", "").at(version)
        answer = type(answer)(answer.app, "", version).send(method, path, body)
        assert (answer.status, answer.fault[0]) == (401, "unauthorized")
        assert "www-authenticate" in answer.headers


def test_identity_headers_of_the_client_are_not_believed(cloud: Cloud) -> None:
    forged = {"X-Identity-Status": "Confirmed", "X-User-Id": "root", "X-Roles": "admin"}
    anonymous = type(cloud.admin)(cloud.app, "", headers=forged)
    assert anonymous.get("/os-services").status == 401
