# SPDX-License-Identifier: Apache-2.0
"""GET /v2.1 tells what there is to whoever asks for JSON Home, and to everybody else which versions there are."""

import pytest

from api.compute_cloud import Cloud
from kilonova.api.compute.family import ComputeFamily

NAMES = "https://docs.openstack.org/api/openstack-compute/2.1"


def test_every_route_is_told_once_with_its_methods(cloud: Cloud) -> None:
    answer = cloud.admin.get("", Accept="application/json-home")
    assert answer.status == 200
    assert answer.headers["content-type"] == "application/json-home"
    assert "Accept" in answer.headers["vary"]
    resources = answer.body["resources"]
    assert resources[f"{NAMES}/rel/servers"] == {
        "href": "/compute/v2.1/servers",
        "hints": {"allow": ["GET", "POST"]},
    }
    assert resources[f"{NAMES}/rel/servers/server_id/metadata/key"] == {
        "href-template": "/compute/v2.1/servers/{server_id}/metadata/{key}",
        "href-vars": {name: f"{NAMES}/param/{name}" for name in ("server_id", "key")},
        "hints": {"allow": ["DELETE", "GET", "PUT"]},
    }
    told = {each.get("href") or each["href-template"] for each in resources.values()}
    routes = {
        f"/compute{route}"
        for route in ComputeFamily.routes
        if route.startswith("/v2.1/") and not route.startswith("/v2.1/{project_id}") and route != "/v2.1/"
    }
    assert told == routes


@pytest.mark.parametrize(
    ("accept", "is_home"),
    [
        ("application/json-home", True),
        ("application/json;q=0.5, application/json-home", True),
        ("application/json-home;q=0.5, application/json", False),
        ("application/json", False),
        ("*/*", False),
        ("", False),
        ("nonsense;;;", False),
    ],
)
def test_only_who_prefers_it_gets_it(cloud: Cloud, accept: str, is_home: bool) -> None:
    answer = cloud.admin.get("/", Accept=accept)
    assert "Accept" in answer.headers["vary"]
    body = answer.body
    assert ("resources" in body, "version" in body) == (is_home, not is_home)
