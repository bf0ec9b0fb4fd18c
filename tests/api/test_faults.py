# SPDX-License-Identifier: Apache-2.0
"""Errors of the compute API: status, name, body and headers, by microversion. Source: spec COMPUTE_API §8 and §9."""

from collections.abc import Mapping
from typing import Any

import pytest
import sqlalchemy as sa

from api.compute_cloud import Cloud
from kilonova.api.compute.versions import MAX_VERSION, MIN_VERSION
from support.api_client import Answer, Client, send

FLAVOR = {"flavor": {"id": "f", "name": "f", "ram": 1, "vcpus": 1, "disk": 1}}
#: method, path, microversion, body → status and name of the error; by an administrator.
ERRORS: list[tuple[str, str, str, Any, int, str]] = [
    ("GET", "/nowhere", "2.1", None, 404, "itemNotFound"),
    ("GET", "/servers/no/where", "2.104", None, 404, "itemNotFound"),
    ("GET", "/servers/0b674f73-aaaa-4000-8000-000000000000", "2.1", None, 404, "itemNotFound"),
    ("PATCH", "/servers", "2.1", None, 405, "badMethod"),
    ("PUT", "/servers", "2.104", {}, 405, "badMethod"),
    ("DELETE", "/flavors", "2.1", None, 405, "badMethod"),
    ("GET", "/servers", "2.0", None, 406, "computeFault"),
    ("GET", "/servers", "2.105", None, 406, "computeFault"),
    ("GET", "/servers", "3.1", None, 406, "computeFault"),
    ("POST", "/servers", "1.1", {}, 406, "computeFault"),
    ("GET", "/nowhere", "2.105", None, 406, "computeFault"),
    *(
        ("GET", "/servers", odd, None, 400, "badRequest")
        for odd in ("two", "2", "2.1.1", "2.x", "v2.1", "-2.1", "2.01")
    ),
    ("GET", "/os-agents", "2.1", None, 410, "computeFault"),
    ("POST", "/os-cells", "2.104", {}, 410, "computeFault"),
    ("GET", "/servers/x/os-virtual-interfaces", "2.43", None, 410, "computeFault"),
    ("GET", "/servers/x/os-virtual-interfaces", "2.44", None, 404, "itemNotFound"),
    # Methods that a microversion does not have: as if there were no such path.
    ("PUT", "/flavors/f", "2.54", {"flavor": {"description": "x"}}, 404, "itemNotFound"),
    ("GET", "/os-hypervisors/statistics", "2.88", None, 404, "itemNotFound"),
    ("GET", "/os-hypervisors/x/search", "2.53", None, 404, "itemNotFound"),
    ("PUT", "/os-services/enable", "2.53", {"host": "a", "binary": "nova-compute"}, 400, "badRequest"),
    ("GET", "/servers/x/tags", "2.25", None, 404, "itemNotFound"),
    ("POST", "/flavors", "2.1", {}, 400, "badRequest"),
    ("POST", "/flavors", "2.1", b"{", 400, "badRequest"),
    ("POST", "/flavors", "2.1", {"flavor": {"name": "x", "ram": "many", "vcpus": 1, "disk": 1}}, 400, "badRequest"),
    ("GET", "/servers?limit=-1", "2.1", None, 400, "badRequest"),
    ("GET", "/servers?unknown=1", "2.75", None, 400, "badRequest"),
    ("POST", "/flavors", "2.1", FLAVOR, 409, "conflictingRequest"),
    ("POST", "/flavors", "2.1", b"x" * 200_000, 413, "overLimit"),
]
_BOTH = ("OpenStack-API-Version", "X-OpenStack-Nova-API-Version")


@pytest.fixture
def filled(cloud: Cloud) -> Cloud:
    assert cloud.admin.post("/flavors", FLAVOR).status == 200
    return cloud


def require_shape(answer: Answer, status: int, name: str, version: str) -> None:
    assert answer.status == status, answer.raw
    ((found, content),) = answer.body.items()
    assert found == name
    assert content.keys() - {"retryAfter"} == {"code", "message"}
    assert content["code"] == status
    assert content["message"]
    require_headers(answer, version)


def require_headers(answer: Answer, version: str) -> None:
    assert answer.headers["openstack-api-version"] == f"compute {version}"
    assert answer.headers["x-openstack-nova-api-version"] == version
    assert {each.strip() for each in answer.headers["vary"].split(",")} == set(_BOTH)
    assert answer.headers["x-compute-request-id"] == answer.headers["x-openstack-request-id"]
    assert answer.headers["x-compute-request-id"].startswith("req-")
    assert answer.headers["content-type"].startswith("application/json")


@pytest.mark.parametrize(("method", "path", "version", "body", "status", "name"), ERRORS)
def test_an_error(filled: Cloud, method: str, path: str, version: str, body: Any, status: int, name: str) -> None:
    is_one = status != 406 and all(part.isdigit() for part in version.split(".")) and version.count(".") == 1
    used = version if is_one and version != "2.01" else str(MIN_VERSION)
    answer = filled.admin.at(version).send(method, path, body)
    require_shape(answer, status, name, used)
    if status == 405:
        assert method not in answer.headers["allow"]
        assert "GET" in answer.headers["allow"]
    if status == 406:
        assert str(MIN_VERSION) in answer.fault[1]
        assert str(MAX_VERSION) in answer.fault[1]


def test_errors_of_who_asks(filled: Cloud) -> None:
    anonymous = Client(filled.app, "", "2.10")
    answer = anonymous.get("/servers")
    assert (answer.status, answer.fault[0]) == (401, "unauthorized")
    assert "www-authenticate" in answer.headers
    require_shape(filled.member.at("2.53").get("/os-services"), 403, "forbidden", "2.53")
    require_shape(filled.member.at("2.1").get("/../v2.1/red/servers"), 404, "itemNotFound", "2.1")
    other = send(filled.app, "GET", "/compute/v2.1/red/servers", b"", {"X-Auth-Token": "alice:wonder"})
    require_shape(other, 400, "badRequest", "2.1")


def test_a_body_of_another_type(filled: Cloud) -> None:
    answer = filled.admin.at("2.1").send("POST", "/flavors", b"<a/>", **{"Content-Type": "text/xml"})
    require_shape(answer, 415, "badMediaType", "2.1")


@pytest.mark.parametrize("version", ["2.1", "2.104"])
def test_what_nobody_expected_is_told_without_its_details(filled: Cloud, version: str) -> None:
    with filled.database.engine.begin() as connection:
        connection.execute(sa.text("ALTER TABLE keypairs RENAME TO gone"))
    answer = filled.admin.at(version).get("/os-keypairs")
    require_shape(answer, 500, "computeFault", version)
    assert "Unexpected API Error" in answer.fault[1]
    assert "keypairs" not in answer.fault[1]


@pytest.mark.parametrize(
    ("headers", "used"),
    [
        ({}, "2.1"),
        ({_BOTH[0]: "compute 2.7"}, "2.7"),
        ({_BOTH[1]: "2.7"}, "2.7"),
        ({_BOTH[0]: "compute 2.9", _BOTH[1]: "2.7"}, "2.9"),
        ({_BOTH[0]: "volume 3.9"}, "2.1"),
        ({_BOTH[0]: "volume 3.9, compute 2.10"}, "2.10"),
        ({_BOTH[0]: "compute latest"}, str(MAX_VERSION)),
        ({_BOTH[1]: "latest"}, str(MAX_VERSION)),
    ],
)
def test_the_version_that_is_used(filled: Cloud, headers: Mapping[str, str], used: str) -> None:
    answer = Client(filled.app, headers=headers).get("/flavors")
    assert answer.status == 200
    require_headers(answer, used)
