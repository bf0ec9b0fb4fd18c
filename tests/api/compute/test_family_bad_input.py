# SPDX-License-Identifier: Apache-2.0
"""Bad input gives a 4xx that names the field, never a 500, and changes nothing."""

from typing import Any

import pytest

from api.compute_cloud import Cloud

UUID = "8a5b6c1c-0000-4000-8000-000000000000"
LONG = "x" * 300


@pytest.fixture(autouse=True)
def _something_there(cloud: Cloud) -> None:
    cloud.add_host("node1")
    cloud.admin.post("/os-aggregates", {"aggregate": {"name": "a", "availability_zone": "az1"}})
    cloud.admin.post("/os-aggregates/1/action", {"add_host": {"host": "node1"}})
    cloud.admin.post("/flavors", {"flavor": {"id": "f", "name": "f", "ram": 1, "vcpus": 1, "disk": 1}})


NAMED: list[tuple[str, str, str, Any, str]] = [
    ("POST", "/os-aggregates", "2.1", {}, "aggregate"),
    ("POST", "/os-aggregates", "2.1", {"aggregate": {}}, "name"),
    ("POST", "/os-aggregates", "2.1", {"aggregate": {"name": LONG}}, "aggregate.name"),
    ("POST", "/os-aggregates", "2.1", {"aggregate": {"name": ""}}, "aggregate.name"),
    ("POST", "/os-aggregates", "2.1", {"aggregate": {"name": None}}, "aggregate.name"),
    ("POST", "/os-aggregates", "2.1", {"aggregate": {"name": " x"}}, "aggregate.name"),
    ("POST", "/os-aggregates", "2.1", {"aggregate": {"name": "x\n"}}, "aggregate.name"),
    ("POST", "/os-aggregates", "2.1", {"aggregate": {"name": "x", "hosts": []}}, "hosts"),
    ("POST", "/os-aggregates", "2.1", {"aggregate": {"name": "x"}, "more": 1}, "more"),
    ("POST", "/os-aggregates", "2.1", {"aggregate": {"name": "x", "availability_zone": ""}}, "availability_zone"),
    ("POST", "/os-aggregates", "2.1", {"aggregate": {"name": "x", "availability_zone": "a:b"}}, "availability_zone"),
    ("POST", "/os-aggregates", "2.1", {"aggregate": {"name": "x", "availability_zone": LONG}}, "availability_zone"),
    ("POST", "/os-aggregates", "2.1", {"aggregate": {"name": "x", "availability_zone": 5}}, "availability_zone"),
    ("PUT", "/os-aggregates/1", "2.1", {"aggregate": {}}, "aggregate"),
    ("PUT", "/os-aggregates/1", "2.1", {"aggregate": {"name": LONG}}, "aggregate.name"),
    ("PUT", "/os-aggregates/1", "2.1", {"aggregate": {"name": "x", "availability_zone": None}}, "availability_zone"),
    ("POST", "/os-aggregates/1/action", "2.1", {"add_host": {}}, "host"),
    ("POST", "/os-aggregates/1/action", "2.1", {"add_host": {"host": ""}}, "add_host.host"),
    ("POST", "/os-aggregates/1/action", "2.1", {"add_host": {"host": "a b"}}, "add_host.host"),
    ("POST", "/os-aggregates/1/action", "2.1", {"add_host": {"host": LONG}}, "add_host.host"),
    ("POST", "/os-aggregates/1/action", "2.1", {"add_host": {"host": "x", "y": 1}}, "y"),
    ("POST", "/os-aggregates/1/action", "2.1", {"add_host": "node1"}, "add_host"),
    ("POST", "/os-aggregates/1/action", "2.1", {"remove_host": {"host": 7}}, "remove_host.host"),
    ("POST", "/os-aggregates/1/action", "2.1", {"set_metadata": {}}, "metadata"),
    ("POST", "/os-aggregates/1/action", "2.1", {"set_metadata": {"metadata": []}}, "set_metadata.metadata"),
    ("POST", "/os-aggregates/1/action", "2.1", {"set_metadata": {"metadata": {"": "x"}}}, "metadata"),
    ("POST", "/os-aggregates/1/action", "2.1", {"set_metadata": {"metadata": {"a/b": "x"}}}, "a/b"),
    ("POST", "/os-aggregates/1/action", "2.1", {"set_metadata": {"metadata": {"a": 5}}}, "metadata.a"),
    ("POST", "/os-aggregates/1/action", "2.1", {"set_metadata": {"metadata": {"a": LONG}}}, "metadata.a"),
    ("PUT", "/os-services/disable", "2.1", {"host": "node1"}, "binary"),
    ("PUT", "/os-services/disable", "2.1", {"host": "a b", "binary": "nova-compute"}, "host"),
    ("PUT", f"/os-services/{UUID}", "2.53", {"status": "off"}, "status"),
    ("GET", "/os-hypervisors?limit=x", "2.33", None, "limit"),
    ("GET", "/flavors?limit=x", "2.1", None, "limit"),
    ("GET", "/flavors?sort_key=x", "2.1", None, "sort_key"),
    ("POST", "/os-server-groups", "2.64", {"server_group": {"name": "g", "policy": "x"}}, "server_group.policy"),
    ("POST", "/os-keypairs", "2.1", {"keypair": {"name": LONG}}, "keypair.name"),
    ("POST", "/os-keypairs", "2.2", {"keypair": {"name": "x", "type": "x"}}, "keypair.type"),
]


@pytest.mark.parametrize(("method", "path", "version", "body", "field"), NAMED)
def test_the_field_is_named(cloud: Cloud, method: str, path: str, version: str, body: Any, field: str) -> None:
    before = cloud.everything()
    answer = cloud.admin.at(version).send(method, path, body)
    assert (answer.status, answer.fault[0]) == (400, "badRequest")
    assert field in answer.fault[1]
    assert cloud.everything() == before


WRITES = [
    ("POST", "/os-aggregates", "aggregate"),
    ("PUT", "/os-aggregates/1", "aggregate"),
    ("POST", "/os-aggregates/1/action", "add_host"),
    ("POST", "/os-aggregates/1/action", "remove_host"),
    ("POST", "/os-aggregates/1/action", "set_metadata"),
    ("POST", "/flavors", "flavor"),
    ("PUT", "/flavors/f", "flavor"),
    ("POST", "/flavors/f/action", "addTenantAccess"),
    ("POST", "/flavors/f/action", "removeTenantAccess"),
    ("POST", "/flavors/f/os-extra_specs", "extra_specs"),
    ("PUT", "/flavors/f/os-extra_specs/a", "a"),
    ("PUT", "/os-services/disable", "host"),
    ("PUT", f"/os-services/{UUID}", "status"),
    ("POST", "/os-keypairs", "keypair"),
    ("POST", "/os-server-groups", "server_group"),
]
JUNK = [None, 0, 1.5, True, "", "x", [], [None], {"x": {}}, {"name": {"name": []}}]


@pytest.mark.parametrize("version", ["2.1", "2.52", "2.104"])
@pytest.mark.parametrize(("method", "path", "key"), WRITES)
def test_junk_is_never_a_server_error(cloud: Cloud, method: str, path: str, key: str, version: str) -> None:
    before = cloud.everything()
    bodies: list[Any] = [
        *JUNK,
        *({key: junk} for junk in JUNK if not (key == "a" and isinstance(junk, (str, float, int)))),
    ]
    for body in bodies:
        answer = cloud.admin.at(version).send(method, path, body)
        assert 400 <= answer.status < 500, (body, answer.body)
    deep = b"[" * 1000 + b'"\\u0000"' + b"]" * 1000
    for raw in (b"{", b"\xff", b"[" * 5000, b'{"a": NaN}', b'{"a": "\\ud800"}', deep, deep.replace(b"\\u0000", b"")):
        answer = cloud.admin.at(version).send(method, path, raw)
        assert 400 <= answer.status < 500, (raw, answer.body)
    assert cloud.everything() == before


@pytest.mark.parametrize("junk", ["0", "-1", "x", "%00", "%20", "%F0%9F%92%A5", "9" * 400, "..", "a" * 5000, UUID])
@pytest.mark.parametrize("version", ["2.1", "2.104"])
def test_junk_in_paths_is_never_a_server_error(cloud: Cloud, junk: str, version: str) -> None:
    client, before = cloud.admin.at(version), cloud.everything()
    for path in (
        f"/os-aggregates/{junk}",
        f"/flavors/{junk}",
        f"/flavors/{junk}/os-extra_specs/{junk}",
        f"/flavors/{junk}/os-flavor-access",
        f"/flavors/f/os-extra_specs/{junk}",
        f"/os-hypervisors/{junk}",
        f"/os-hypervisors/{junk}/uptime",
        f"/os-hypervisors/{junk}/servers",
        f"/os-services/{junk}",
        f"/os-keypairs/{junk}",
        f"/os-server-groups/{junk}",
    ):
        for method in ("GET", "DELETE"):
            answer = client.send(method, path)
            assert 400 <= answer.status < 500, (method, path, answer.status)
    assert cloud.everything() == before


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/os-aggregates", {"aggregate": {"name": "a\0b"}}),
        ("POST", "/os-aggregates/1/action", {"set_metadata": {"metadata": {"a": "\0"}}}),
        ("POST", "/flavors/f/os-extra_specs", {"extra_specs": {"a": "\0"}}),
        ("GET", "/os-services?host=%00", None),
        ("GET", "/flavors?marker=%00", None),
    ],
)
def test_null_characters_are_refused_before_a_database_sees_them(
    cloud: Cloud, method: str, path: str, body: Any
) -> None:
    before = cloud.everything()
    assert cloud.admin.send(method, path, body).status == 400
    assert cloud.everything() == before
