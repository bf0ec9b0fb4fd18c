# SPDX-License-Identifier: Apache-2.0
"""Every reply of the compute API: versions, fault bodies, content types. Source: spec COMPUTE_API 8 and 9."""

import pytest

from api.compute_cloud import Cloud


def test_every_answer_names_the_version_used(cloud: Cloud) -> None:
    for client, path, version in (
        (cloud.member, "/flavors", "2.1"),
        (cloud.member.at("2.53"), "/flavors", "2.53"),
        (cloud.member.at("latest"), "/flavors", "2.104"),
        (cloud.member.at("2.53"), "/flavors/nothing", "2.53"),
        (cloud.member.at("2.53"), "/nothing", "2.53"),
    ):
        headers = client.get(path).headers
        assert headers["openstack-api-version"] == f"compute {version}"
        assert headers["x-openstack-nova-api-version"] == version
        assert headers["vary"] == "OpenStack-API-Version, X-OpenStack-Nova-API-Version"
        assert headers["x-compute-request-id"] == headers["x-openstack-request-id"]
        assert headers["x-compute-request-id"].startswith("req-")


def test_the_newer_header_wins_and_other_services_are_ignored(cloud: Cloud) -> None:
    both = {"OpenStack-API-Version": "placement 1.3, compute 2.11", "X-OpenStack-Nova-API-Version": "2.1"}
    assert cloud.admin.get("/flavors", **both).headers["x-openstack-nova-api-version"] == "2.11"
    other = {"OpenStack-API-Version": "placement 1.3", "X-OpenStack-Nova-API-Version": "2.9"}
    assert cloud.admin.get("/flavors", **other).headers["x-openstack-nova-api-version"] == "2.9"


@pytest.mark.parametrize("version", ["2.0", "1.1", "2.105", "3.1"])
def test_versions_out_of_range_are_406(cloud: Cloud, version: str) -> None:
    answer = cloud.member.at(version).get("/flavors")
    assert (answer.status, answer.fault[0]) == (406, "computeFault")
    assert "2.1" in answer.fault[1]
    assert "2.104" in answer.fault[1]


@pytest.mark.parametrize("version", ["2", "2.x", "2.01", "two", "2.1.1"])
def test_malformed_versions_are_400(cloud: Cloud, version: str) -> None:
    answer = cloud.member.at(version).get("/flavors")
    assert (answer.status, answer.fault[0]) == (400, "badRequest")
    assert version in answer.fault[1]


def test_an_unknown_path_is_404_and_an_unknown_method_405(cloud: Cloud) -> None:
    missing = cloud.admin.get("/nothing")
    assert (missing.status, missing.fault[0]) == (404, "itemNotFound")
    wrong = cloud.admin.send("PATCH", "/flavors")
    assert (wrong.status, wrong.fault[0]) == (405, "badMethod")
    assert wrong.headers["allow"] == "GET, POST"


@pytest.mark.parametrize(
    "path", ["/flavors/", "/flavors//os-extra_specs", "/os-simple-tenant-usage/", "/servers//metadata"]
)
def test_nothing_has_an_empty_name(cloud: Cloud, path: str) -> None:
    assert cloud.admin.get(path).fault[0] == "itemNotFound"


def test_only_json_is_read(cloud: Cloud) -> None:
    raw = b'{"aggregate": {"name": "%s"}}'
    post = cloud.admin.post
    refused = post("/os-aggregates", raw % b"a", **{"Content-Type": "application/xml"})
    assert (refused.status, refused.fault[0]) == (415, "badMediaType")
    kinds = ("application/json; charset=utf-8", "application/vnd.openstack.compute+json", "text/plain")
    for name, kind in zip((b"a", b"b", b"c"), kinds, strict=True):
        assert post("/os-aggregates", raw % name, **{"Content-Type": kind}).status == 200


def test_broken_json_is_400(cloud: Cloud) -> None:
    answer = cloud.admin.post("/os-aggregates", b'{"aggregate": ')
    assert (answer.status, answer.fault[0]) == (400, "badRequest")


def test_the_project_may_stand_in_the_path(cloud: Cloud) -> None:
    assert cloud.member.get("/wonder/flavors").status == 200
    assert cloud.member.get("/wonder/os-keypairs").status == 200
    for client in (cloud.member, cloud.admin):
        refused = client.get("/other/flavors")
        assert (refused.status, refused.fault[0]) == (400, "badRequest")
        assert "other" in refused.fault[1]


def test_tokens_of_consoles_take_no_parameters_from_2_99(cloud: Cloud) -> None:
    path = "/os-console-auth-tokens/gone?colour=red"
    assert [cloud.admin.at(version).get(path).status for version in ("2.98", "2.99")] == [404, 400]


@pytest.mark.parametrize(
    "path",
    [
        "/os-aggregates",
        "/os-aggregates/1",
        "/os-availability-zone",
        "/os-availability-zone/detail",
        "/flavors",
        "/flavors/f",
        "/flavors/f/os-extra_specs",
        "/flavors/f/os-flavor-access",
        "/os-hypervisors",
        "/os-keypairs",
        "/os-keypairs/k",
        "/os-server-groups",
        "/os-services",
    ],
)
def test_unknown_parameters_are_refused_everywhere_from_2_102(cloud: Cloud, path: str) -> None:
    answer = cloud.admin.at("2.102").get(f"{path}?colour=red")
    assert answer.status == 400
    assert "colour" in answer.fault[1]
